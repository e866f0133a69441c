//! Who may ask, and for what.

use std::{
    collections::HashMap,
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Mutex, PoisonError},
};

use jiff::Timestamp;
use sha2::{Digest, Sha256};

/// What someone may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Look.
    Viewer,
    /// Look, and change things.
    Operator,
}

/// A secret that lets someone in. Kept as its digest, so that comparing takes the same time whatever
/// is tried, and nothing prints it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token([u8; 32]);

impl Token {
    /// Shorter ones can be guessed.
    pub const MIN_BYTES: usize = 16;

    /// From its text; none if it is too short to be one.
    pub fn new(text: &str) -> Option<Self> {
        (text.len() >= Self::MIN_BYTES).then(|| Self(Sha256::digest(text).into()))
    }

    /// Whether a text is it. Looks at every byte, wherever they differ.
    pub fn is(&self, text: &str) -> bool {
        let tried: [u8; 32] = Sha256::digest(text).into();
        self.0.iter().zip(tried).fold(0, |differs, (one, other)| differs | (one ^ other)) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Who may ask.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Who has it may look.
    pub viewer: Option<Token>,
    /// Who has it may do everything.
    pub operator: Option<Token>,
    /// Names under which the server may be asked, beside its address and those of this machine.
    pub hosts: Vec<String>,
}

/// Tokens that were tried and are none, in the current minute: a token cannot be guessed by trying many.
#[derive(Debug, Default)]
pub(crate) struct Guesses(Mutex<Wrong>);

/// The wrong ones of a minute, by where they came from.
#[derive(Debug, Default)]
struct Wrong {
    minute: i64,
    counts: HashMap<IpAddr, u32>,
}

impl Guesses {
    /// Wrong tokens from one address in a minute. After them no token is looked at, right or wrong:
    /// otherwise the one that is let in would be known all the same.
    const MAX_A_MINUTE: u32 = 60;

    /// Addresses that are told apart. Those that come later share a count.
    const MAX_ADDRESSES: usize = 10_000;

    /// Whether another token may be tried.
    pub(crate) fn allow(&self, from: IpAddr, now: Timestamp) -> bool {
        let mut wrong = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = *wrong.count_of(from, now);
        counted < Self::MAX_A_MINUTE
    }

    /// Counts a wrong one.
    pub(crate) fn count(&self, from: IpAddr, now: Timestamp) {
        let mut wrong = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = wrong.count_of(from, now);
        *count = count.saturating_add(1);
    }
}

impl Wrong {
    fn count_of(&mut self, from: IpAddr, now: Timestamp) -> &mut u32 {
        if self.minute != minute(now) {
            *self = Self { minute: minute(now), counts: HashMap::new() };
        }
        let is_known = self.counts.contains_key(&from);
        let is_full = !is_known && self.counts.len() >= Guesses::MAX_ADDRESSES;
        let from = if is_full { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { from };
        self.counts.entry(from).or_default()
    }
}

fn minute(now: Timestamp) -> i64 {
    now.as_second().div_euclid(60)
}

/// An address that others can reach, without a token to keep them out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} can be reached from other machines, and there is no token to keep strangers out")]
pub struct Open(pub SocketAddr);

impl Access {
    /// Refuses an address that others can reach, unless a token is asked for.
    pub fn check(&self, address: SocketAddr) -> Result<(), Open> {
        if address.ip().is_loopback() || self.needs_token() { Ok(()) } else { Err(Open(address)) }
    }

    /// Whether a token is asked for. Otherwise whoever can reach the server, on this machine, may do
    /// everything.
    pub fn needs_token(&self) -> bool {
        self.viewer.is_some() || self.operator.is_some()
    }

    /// What a token allows.
    pub fn role_of(&self, token: &str) -> Option<Role> {
        // Both are compared, so that the time tells nothing of which there are.
        let operator = self.operator.as_ref().is_some_and(|known| known.is(token));
        let viewer = self.viewer.as_ref().is_some_and(|known| known.is(token));
        match (operator, viewer) {
            (true, _) => Some(Role::Operator),
            (false, true) => Some(Role::Viewer),
            (false, false) => None,
        }
    }

    /// Whether a `Host` is one of ours. A page of another name that resolves to this machine is not.
    pub fn allows_host(&self, host: &str, listening: SocketAddr) -> bool {
        let name = without_port(host);
        let literal = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        match literal {
            Ok(ip) => ip.is_loopback() || ip == listening.ip() || self.names(name),
            Err(_) => name.eq_ignore_ascii_case("localhost") || self.names(name),
        }
    }

    fn names(&self, name: &str) -> bool {
        self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

fn without_port(host: &str) -> &str {
    match host.rfind(':') {
        Some(colon) if !host.ends_with(']') => host.get(..colon).unwrap_or(host),
        _ => host,
    }
}
