//! The way to a server: names, addresses and encryption.
//!
//! There is no proxy, whatever the environment says, and no redirect: a request goes where the
//! configuration sends it, or nowhere. Private addresses are judged after the name is resolved and
//! right before the connection, so that a name that answers differently the second time gains nothing.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::{HttpConnector, dns::Name};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use tower_service::Service;

use super::{
    addresses::is_private,
    spec::{HttpSpec, InvalidHttp},
};

/// Finds the way to a server.
pub(super) type Connector = HttpsConnector<HttpConnector<Resolver>>;

/// A connector for one specification.
pub(super) fn connector(spec: &HttpSpec) -> Result<Connector, InvalidHttp> {
    let resolver = Resolver { private_addresses: spec.private_addresses };
    let mut connector = HttpConnector::new_with_resolver(resolver);
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(spec.connect_timeout));
    Ok(HttpsConnectorBuilder::new()
        .with_tls_config(encryption(spec.url.scheme_str() == Some("https"))?)
        .https_or_http()
        .enable_http1()
        .wrap_connector(connector))
}

/// Trusts whom the machine trusts. Who speaks plain HTTP need not have anybody to trust.
fn encryption(needed: bool) -> Result<ClientConfig, InvalidHttp> {
    let mut roots = RootCertStore::empty();
    if needed {
        // A machine may hold certificates that nobody can read; the rest still count.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(InvalidHttp::NoAuthorities);
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(InvalidHttp::Encryption)?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Resolves names as the system does, and leaves out what may not be connected to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Resolver {
    private_addresses: bool,
}

/// Why a name leads nowhere.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAddress {
    #[error("{0}")]
    Unresolved(io::Error),
    #[error("it has the private address {0}, and private addresses are refused")]
    Private(std::net::IpAddr),
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = NoAddress;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, NoAddress>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), NoAddress>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let private_addresses = self.private_addresses;
        Box::pin(async move {
            // The port is set by who connects.
            let found = tokio::net::lookup_host((name.as_str(), 0)).await;
            let mut found: Vec<SocketAddr> = found.map_err(NoAddress::Unresolved)?.collect();
            let refused = found.iter().map(SocketAddr::ip).find(|address| is_private(*address));
            if !private_addresses {
                found.retain(|address| !is_private(address.ip()));
            }
            match refused {
                Some(address) if found.is_empty() => Err(NoAddress::Private(address)),
                _ => Ok(found.into_iter()),
            }
        })
    }
}
