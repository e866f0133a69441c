//! Who may ask, and for what.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

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

/// An address that others can reach, without a token to keep them out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} can be reached from other machines, and there is no token to keep strangers out")]
pub struct UnprotectedAddress(pub SocketAddr);

impl Access {
    /// Refuses an address that others can reach, unless a token is asked for.
    pub fn check(&self, address: SocketAddr) -> Result<(), UnprotectedAddress> {
        if address.ip().is_loopback() || self.needs_token() {
            Ok(())
        } else {
            Err(UnprotectedAddress(address))
        }
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
