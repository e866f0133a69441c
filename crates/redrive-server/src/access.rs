//! Tokens, roles and allowed host names.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use sha2::{Digest, Sha256};

use crate::network::Network;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// May submit runs, and nothing else.
    Submitter,
    /// May read.
    Viewer,
    /// May read and act.
    Operator,
}

impl Role {
    pub const ALL: [Self; 3] = [Self::Submitter, Self::Viewer, Self::Operator];

    pub fn name(self) -> &'static str {
        match self {
            Self::Submitter => "submitter",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
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

    /// Reads the SHA-256 of a token: 64 hexadecimal digits.
    pub fn from_sha256(hex: &str) -> Option<Self> {
        if hex.len() != 64 || !hex.is_ascii() {
            return None;
        }
        let mut digest = [0; 32];
        for (byte, digits) in digest.iter_mut().zip(hex.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(Self(digest))
    }

    /// The SHA-256 of the token, as the configuration has it.
    pub fn sha256(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
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

/// A token with its role. The journal has its name.
#[derive(Debug, Clone)]
pub struct NamedToken {
    pub name: String,
    pub role: Role,
    pub token: Token,
    /// The token is refused. The entry stays, so that a server whose only token is revoked does not let everyone in.
    pub revoked: bool,
}

impl NamedToken {
    pub fn new(name: impl Into<String>, role: Role, token: Token) -> Self {
        Self { name: name.into(), role, token, revoked: false }
    }
}

/// Who may connect, and with which role.
#[derive(Debug, Clone, Default)]
pub struct Access {
    pub tokens: Vec<NamedToken>,
    /// Host names that requests may use, in addition to the address of the server and loopback names.
    pub hosts: Vec<String>,
    /// Proxies whose `X-Forwarded-For` or `Forwarded` header names the client.
    pub trusted_proxies: Vec<Network>,
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
        !self.tokens.is_empty()
    }

    /// The entry of a token that is not revoked.
    pub fn find(&self, text: &str) -> Option<&NamedToken> {
        // Every token is compared, so that the time does not reveal which ones are configured.
        let matching = self.tokens.iter().filter(|known| known.token.matches(text));
        matching.fold(None, |found, known| if known.revoked { found } else { Some(known) })
    }

    /// The entry of the token that started a session, as long as the token is valid.
    pub(crate) fn entry_of(&self, token: &Token) -> Option<&NamedToken> {
        self.tokens.iter().find(|known| known.token == *token && !known.revoked)
    }

    pub(crate) fn is_trusted_proxy(&self, ip: IpAddr) -> bool {
        self.trusted_proxies.iter().any(|network| network.contains(ip))
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
