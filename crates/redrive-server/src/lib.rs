//! Redrive over HTTP.
//!
//! The server sees no SQL and no database: it asks the store. So far it answers one
//! question, the one a load balancer and an on-call engineer ask first: is it well?
//!
//! - `GET /health`: 200 while the store answers, 503 with the reason while it does not.

mod health;

use std::{future::Future, net::SocketAddr, sync::Arc};

use axum::{Router, routing::get};
use redrive_store::Store;
use tokio::net::TcpListener;

/// Why the server stopped or did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address cannot be listened on.
    #[error("listening on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The server broke off.
    #[error("serving HTTP")]
    Serve(#[source] std::io::Error),
}

/// A server that listens and does not serve yet, so that its address is known before the first
/// request.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    store: Arc<dyn Store>,
}

impl Server {
    /// Starts to listen. Port 0 takes any free one.
    pub async fn listen(address: SocketAddr, store: Arc<dyn Store>) -> Result<Self, Error> {
        let failed = |source| Error::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address, store })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests until told to stop; those under way are finished first.
    pub async fn serve(self, stop: impl Future<Output = ()> + Send + 'static) -> Result<(), Error> {
        let router = Router::new().route("/health", get(health::health)).with_state(self.store);
        axum::serve(self.listener, router).with_graceful_shutdown(stop).await.map_err(Error::Serve)
    }
}
