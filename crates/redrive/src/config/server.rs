//! `[server]`: the address, access and limits of the API and the dashboard.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

#[cfg(feature = "server")]
use redrive_server::{Network, ServerLimits};

use super::{
    handler::env_name,
    log::UniqueNames,
    reader::{Section, Value},
    value::{duration_in, flag, set, shorten, text, unique_name, whole, word},
};

const DEFAULT_PORT: u16 = 7878;

/// The longest DNS name.
const MAX_HOST_BYTES: usize = 253;

/// Each connection is an open file of the process.
const MAX_CONNECTIONS: usize = 100_000;

const MAX_REQUESTS: u32 = 1_000_000;

/// The range of `patience`, the time a client has to send its request.
const PATIENCE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3_600)];

/// The server holds an uploaded item in memory.
const MAX_ITEM_BYTES: usize = 1024 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Default: 127.0.0.1:7878, which only this machine reaches.
    pub listen: SocketAddr,
    /// Accepted `Host` names, in addition to the listen address and the names of this machine.
    pub hosts: Vec<String>,
    /// The environment variable that holds the token for full access.
    pub operator_token: Option<String>,
    /// The environment variable that holds the token for read access.
    pub viewer_token: Option<String>,
    pub tokens: Vec<TokenConfig>,
    /// Proxies that name the client in `X-Forwarded-For` or `Forwarded`.
    #[cfg(feature = "server")]
    pub trusted_proxies: Vec<Network>,
    #[cfg(feature = "server")]
    pub limits: ServerLimits,
}

/// `[[server.tokens]]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenConfig {
    pub name: String,
    /// `submitter`, `viewer` or `operator`.
    pub role: &'static str,
    pub digest: TokenDigest,
    pub revoked: bool,
}

/// Where the SHA-256 of a token is. Tokens themselves must not be in the file, which many people can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenDigest {
    /// 64 hexadecimal digits.
    Written(String),
    /// The environment variable that holds the digits.
    Env(String),
}

const ROLES: [(&str, &str); 3] =
    [("submitter", "submitter"), ("viewer", "viewer"), ("operator", "operator")];

impl TokenConfig {
    fn read(s: &mut Section<'_>, names: &mut UniqueNames) -> Option<Self> {
        let name = s.require("name", unique_name("tokens", names));
        let role = s.require("role", word(&ROLES));
        let digest = s.require("sha256", digest);
        let revoked = s.get("revoked", flag).unwrap_or_default();
        Some(Self { name: name?, role: role?, digest: digest?, revoked })
    }
}

fn digest(value: Value<'_>) -> Option<TokenDigest> {
    if matches!(value.node, toml::de::DeValue::Table(_)) {
        return value.table(|s| s.require("env", env_name)).map(TokenDigest::Env);
    }
    let digits = text(value.clone())?;
    if digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Some(TokenDigest::Written(digits));
    }
    value.refuse_secret(
        "not a SHA-256",
        "64 hexadecimal digits",
        "`redrive token new` makes a token and prints these lines",
    )
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), DEFAULT_PORT),
            hosts: Vec::new(),
            operator_token: None,
            viewer_token: None,
            tokens: Vec::new(),
            #[cfg(feature = "server")]
            trusted_proxies: Vec::new(),
            #[cfg(feature = "server")]
            limits: ServerLimits::default(),
        }
    }
}

impl ServerConfig {
    pub(super) fn read(s: &mut Section<'_>) -> Option<Self> {
        let listen = s.get("listen", address);
        let hosts = s.get("hosts", set(host));
        let operator_token = s.get("operator-token", token);
        let viewer_token = s.get("viewer-token", token);
        let mut names = UniqueNames::default();
        let tokens = s.each("tokens", |s| TokenConfig::read(s, &mut names));
        let trusted_proxies = s.get("trusted-proxies", set(network));
        let connections = s.get("max-connections", whole(1..=MAX_CONNECTIONS));
        let per_address = s.get("max-connections-per-address", whole(1..=MAX_CONNECTIONS));
        let client_timeout = s.get("patience", duration_in(PATIENCE[0]..=PATIENCE[1]));
        let requests = s.get("max-requests-per-second", whole(1..=MAX_REQUESTS));
        let item_bytes = s.get("max-item-bytes", whole(1..=MAX_ITEM_BYTES));
        let defaults = Self::default();
        #[cfg(feature = "server")]
        let limits = ServerLimits {
            connections: connections.unwrap_or(defaults.limits.connections),
            connections_per_address: per_address.unwrap_or(defaults.limits.connections_per_address),
            client_timeout: client_timeout.unwrap_or(defaults.limits.client_timeout),
            requests_a_second: requests.unwrap_or(defaults.limits.requests_a_second),
            item_bytes: item_bytes.unwrap_or(defaults.limits.item_bytes),
        };
        #[cfg(not(feature = "server"))]
        let _ = (connections, per_address, client_timeout, requests, item_bytes, trusted_proxies);
        Some(Self {
            listen: listen.unwrap_or(defaults.listen),
            hosts: hosts.unwrap_or_default(),
            operator_token,
            viewer_token,
            tokens,
            #[cfg(feature = "server")]
            trusted_proxies: trusted_proxies.unwrap_or_default(),
            #[cfg(feature = "server")]
            limits,
        })
    }
}

/// The variable that holds a token. Tokens must not be in the file, which many people can read.
fn token(value: Value<'_>) -> Option<String> {
    value.table(|s| s.require("env", env_name))
}

#[cfg(feature = "server")]
fn network(value: Value<'_>) -> Option<Network> {
    let written = text(value.clone())?;
    written.parse().ok().or_else(|| {
        value.refuse(
            format!("{:?} is not an address or a network", shorten(&written)),
            "write an IP address such as 10.0.0.7, or a network such as 10.0.0.0/8",
        )
    })
}

#[cfg(not(feature = "server"))]
fn network(value: Value<'_>) -> Option<String> {
    text(value)
}

/// A value of the `Host` header, without a port.
fn host(value: Value<'_>) -> Option<String> {
    let name = text(value.clone())?;
    let is_valid = !name.is_empty()
        && name.len() <= MAX_HOST_BYTES
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    if is_valid {
        return Some(name);
    }
    value.refuse(
        format!("{:?} is not a host name", shorten(&name)),
        "write a name such as redrive.example.com, without a port",
    )
}

fn address(value: Value<'_>) -> Option<SocketAddr> {
    let written = text(value.clone())?;
    written.parse().ok().or_else(|| {
        value.refuse(
            format!("{:?} is not an address to listen on", shorten(&written)),
            "write an IP address and a port, such as 127.0.0.1:7878 or [::1]:7878",
        )
    })
}
