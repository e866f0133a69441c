//! `[server]`: where the API and the dashboard listen.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::{
    reader::{Section, Value},
    value::{shorten, text},
};

const DEFAULT_PORT: u16 = 7878;

/// What the file says of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Server {
    /// Where it listens: this machine alone, unless given.
    pub listen: SocketAddr,
}

impl Default for Server {
    fn default() -> Self {
        Self { listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), DEFAULT_PORT) }
    }
}

impl Server {
    pub(super) fn read(s: &mut Section<'_>) -> Option<Self> {
        let listen = s.get("listen", address);
        Some(listen.map_or_else(Self::default, |listen| Self { listen }))
    }
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
