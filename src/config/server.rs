//! `[server]`: where the API and the dashboard listen, and who may ask.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::{
    handler::env_name,
    reader::{Section, Value},
    value::{set, shorten, text},
};

const DEFAULT_PORT: u16 = 7878;

/// The longest name of a host.
const MAX_HOST_BYTES: usize = 253;

/// What the file says of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Where it listens: this machine alone, unless given.
    pub listen: SocketAddr,
    /// Names under which it may be asked, beside its address and those of this machine.
    pub hosts: Vec<String>,
    /// The environment variable with the token that allows everything.
    pub operator_token: Option<String>,
    /// The environment variable with the token that allows looking.
    pub viewer_token: Option<String>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), DEFAULT_PORT),
            hosts: Vec::new(),
            operator_token: None,
            viewer_token: None,
        }
    }
}

impl Server {
    pub(super) fn read(s: &mut Section<'_>) -> Option<Self> {
        let listen = s.get("listen", address);
        let hosts = s.get("hosts", set(host));
        let operator_token = s.get("operator-token", token);
        let viewer_token = s.get("viewer-token", token);
        Some(Self {
            listen: listen.unwrap_or_else(|| Self::default().listen),
            hosts: hosts.unwrap_or_default(),
            operator_token,
            viewer_token,
        })
    }
}

/// The variable that a token is in. A token in the file would be read by everyone who reads the file.
fn token(value: Value<'_>) -> Option<String> {
    value.table(|s| s.require("env", env_name))
}

/// A name as it stands in the header `Host`, without a port.
fn host(value: Value<'_>) -> Option<String> {
    let name = text(value.clone())?;
    let is_one = !name.is_empty()
        && name.len() <= MAX_HOST_BYTES
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    if is_one {
        return Some(name);
    }
    value.refuse(
        format!("{:?} is not the name of a host", shorten(&name)),
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
