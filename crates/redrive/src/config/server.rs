//! `[server]`: the address, access and limits of the API and the dashboard.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

#[cfg(feature = "server")]
use redrive_server::ServerLimits;

use super::{
    handler::env_name,
    reader::{Section, Value},
    value::{duration_in, set, shorten, text, whole},
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
    #[cfg(feature = "server")]
    pub limits: ServerLimits,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), DEFAULT_PORT),
            hosts: Vec::new(),
            operator_token: None,
            viewer_token: None,
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
        let connections = s.get("max-connections", whole(1..=MAX_CONNECTIONS));
        let client_timeout = s.get("patience", duration_in(PATIENCE[0]..=PATIENCE[1]));
        let requests = s.get("max-requests-per-second", whole(1..=MAX_REQUESTS));
        let item_bytes = s.get("max-item-bytes", whole(1..=MAX_ITEM_BYTES));
        let defaults = Self::default();
        #[cfg(feature = "server")]
        let limits = ServerLimits {
            connections: connections.unwrap_or(defaults.limits.connections),
            client_timeout: client_timeout.unwrap_or(defaults.limits.client_timeout),
            requests_a_second: requests.unwrap_or(defaults.limits.requests_a_second),
            item_bytes: item_bytes.unwrap_or(defaults.limits.item_bytes),
        };
        #[cfg(not(feature = "server"))]
        let _ = (connections, client_timeout, requests, item_bytes);
        Some(Self {
            listen: listen.unwrap_or(defaults.listen),
            hosts: hosts.unwrap_or_default(),
            operator_token,
            viewer_token,
            #[cfg(feature = "server")]
            limits,
        })
    }
}

/// The variable that holds a token. Tokens must not be in the file, which many people can read.
fn token(value: Value<'_>) -> Option<String> {
    value.table(|s| s.require("env", env_name))
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
