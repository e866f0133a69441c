//! Opens connections: resolves the name, connects, and starts TLS for `https`.
//!
//! Proxies in the environment are ignored and redirects are not followed: a request goes to the
//! configured server or nowhere. Private addresses are checked after the name is resolved and right
//! before the connection, so a name that resolves differently the second time cannot bypass the check.

use std::{
    error::Error,
    io,
    net::{IpAddr, SocketAddr},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures_util::future::{Either, select};
use http::Uri;
use hyper_util::rt::TokioIo;
use redrive_core::HumanDuration;
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
    time::{sleep, timeout},
};
use tokio_rustls::TlsConnector;

use super::{
    addresses::is_private,
    spec::{HttpSpec, InvalidHttp},
    tls::{client_config, native_roots},
};

/// How long the addresses of the preferred family have before the other family is tried as well
/// (RFC 6555).
const FALLBACK_DELAY: Duration = Duration::from_millis(300);

/// A byte stream to a server, encrypted or not.
pub(super) type ServerStream = TokioIo<Box<dyn ByteStream>>;

pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> ByteStream for T {}

#[derive(Clone)]
pub(crate) struct ServerConnector {
    tls: TlsConnector,
    /// Bounds the TCP connection. Name resolution and the TLS handshake count against the time limit
    /// of the request alone.
    connect_timeout: Duration,
    private_addresses: bool,
}

/// Why a name has no address to connect to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAddress {
    #[error("{0}")]
    Unresolved(io::Error),
    #[error("the host has the private address {0}, and private addresses are refused")]
    Private(IpAddr),
}

impl ServerConnector {
    pub(crate) fn new(tls: ClientConfig, connect_timeout: Duration) -> Self {
        Self { tls: Arc::new(tls).into(), connect_timeout, private_addresses: true }
    }

    /// A specification for plain HTTP needs no certificate authorities.
    pub(super) fn for_spec(spec: &HttpSpec) -> Result<Self, InvalidHttp> {
        let roots = if spec.url.scheme_str() == Some("https") {
            let roots = native_roots();
            if roots.is_empty() {
                return Err(InvalidHttp::NoAuthorities);
            }
            roots
        } else {
            RootCertStore::empty()
        };
        let tls = client_config(roots).map_err(InvalidHttp::Tls)?;
        let private_addresses = spec.private_addresses;
        Ok(Self { private_addresses, ..Self::new(tls, spec.connect_timeout) })
    }

    pub(super) async fn connect(
        &self,
        url: &Uri,
    ) -> Result<ServerStream, Box<dyn Error + Send + Sync>> {
        let is_https = url.scheme_str() == Some("https");
        let host = url.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = url.port_u16().unwrap_or(if is_https { 443 } else { 80 });
        let addresses = self.resolve(host, port).await?;
        let tcp = self.connect_tcp(&addresses).await?;
        // Without it small requests wait for acknowledgements; a failure costs speed alone.
        _ = tcp.set_nodelay(true);
        let stream: Box<dyn ByteStream> = if is_https {
            let name = ServerName::try_from(host)?.to_owned();
            Box::new(self.tls.connect(name, tcp).await?)
        } else {
            Box::new(tcp)
        };
        Ok(TokioIo::new(stream))
    }

    async fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, NoAddress> {
        let found = lookup_host((host, port)).await.map_err(NoAddress::Unresolved)?;
        let mut found: Vec<SocketAddr> = found.collect();
        if !self.private_addresses {
            let private = found.iter().map(SocketAddr::ip).find(|address| is_private(*address));
            found.retain(|address| !is_private(address.ip()));
            if let (true, Some(address)) = (found.is_empty(), private) {
                return Err(NoAddress::Private(address));
            }
        }
        Ok(found)
    }

    /// Connects to the first address that answers. The family that the resolver prefers goes first.
    async fn connect_tcp(&self, addresses: &[SocketAddr]) -> io::Result<TcpStream> {
        let prefers_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
        let (preferred, fallback): (Vec<SocketAddr>, Vec<SocketAddr>) =
            addresses.iter().partition(|address| address.is_ipv6() == prefers_v6);
        if fallback.is_empty() {
            return self.connect_any(&preferred).await;
        }
        let first = pin!(self.connect_any(&preferred));
        let second = pin!(async {
            sleep(FALLBACK_DELAY).await;
            self.connect_any(&fallback).await
        });
        match select(first, second).await {
            Either::Left((Err(_), second)) => second.await,
            Either::Right((Err(_), first)) => first.await,
            Either::Left((connected, _)) | Either::Right((connected, _)) => connected,
        }
    }

    /// Tries one address after the other; each gets an equal share of the timeout.
    async fn connect_any(&self, addresses: &[SocketAddr]) -> io::Result<TcpStream> {
        let share = self.connect_timeout / u32::try_from(addresses.len().max(1)).unwrap_or(1);
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in addresses {
            last = match timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => error,
                Err(_) => {
                    let limit = HumanDuration::from(share);
                    let message = format!("{address} did not accept a connection within {limit}");
                    io::Error::new(io::ErrorKind::TimedOut, message)
                }
            };
        }
        Err(last)
    }
}
