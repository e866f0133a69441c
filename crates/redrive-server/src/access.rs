//! Tokens, roles and allowed host names.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use sha2::{Digest, Sha256};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// May read.
    Viewer,
    /// May read and act.
    Operator,
}

/// A bearer token. Stored as a digest, so that a comparison takes constant time and nothing prints the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Token([u8; 32]);

impl Token {
    /// A shorter token could be guessed.
    pub const MIN_BYTES: usize = 16;

    /// Returns `None` when the text is shorter than [`Self::MIN_BYTES`].
    pub fn new(text: &str) -> Option<Self> {
        (text.len() >= Self::MIN_BYTES).then(|| Self(Sha256::digest(text).into()))
    }

    /// Compares in constant time.
    pub fn matches(&self, text: &str) -> bool {
        let tried: [u8; 32] = Sha256::digest(text).into();
        self.0.iter().zip(tried).fold(0, |differs, (one, other)| differs | (one ^ other)) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Who may connect, and with which role.
#[derive(Debug, Clone, Default)]
pub struct Access {
    pub viewer: Option<Token>,
    pub operator: Option<Token>,
    /// Host names that requests may use, in addition to the address of the server and loopback names.
    pub hosts: Vec<String>,
}

/// The server would listen on an address that other machines can reach, without a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("other machines can reach {0}, and no token is configured")]
pub struct UnprotectedAddress(pub SocketAddr);

impl Access {
    /// Rejects an address that other machines can reach, unless a token is configured.
    pub fn check(&self, address: SocketAddr) -> Result<(), UnprotectedAddress> {
        if address.ip().is_loopback() || self.needs_token() {
            Ok(())
        } else {
            Err(UnprotectedAddress(address))
        }
    }

    /// Without a token every local caller is an operator.
    pub fn needs_token(&self) -> bool {
        self.viewer.is_some() || self.operator.is_some()
    }

    pub fn role_of(&self, token: &str) -> Option<Role> {
        // Both tokens are compared, so that the time does not reveal which ones are configured.
        let operator = self.operator.as_ref().is_some_and(|known| known.matches(token));
        let viewer = self.viewer.as_ref().is_some_and(|known| known.matches(token));
        match (operator, viewer) {
            (true, _) => Some(Role::Operator),
            (false, true) => Some(Role::Viewer),
            (false, false) => None,
        }
    }

    /// Whether a `Host` header names this server. Rejecting other names prevents DNS rebinding.
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
