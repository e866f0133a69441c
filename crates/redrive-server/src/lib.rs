//! Redrive over HTTP: the dashboard, the API under `/v1`, and whether all is well.
//!
//! The server sees no SQL and no database: everything goes through the [`Ops`](redrive_ops::Ops) that the
//! command line uses.
//!
//! - `/`: the dashboard, pages that are rendered here.
//! - `/v1/…`: the API, described by `/openapi.json`.
//! - `/metrics`: figures for Prometheus.
//! - `/healthz`: the process answers. `/readyz`: and so does the store.

mod access;
mod api;
mod app;
mod connections;
mod extract;
mod group_sends;
mod guard;
mod health;
mod limits;
mod metrics;
mod pages;
mod problem;
mod rate_limit;

use std::{future::Future, net::SocketAddr, sync::Arc};

use axum::{Router, middleware, routing::get};
use redrive_ops::Watch;
use tokio::net::TcpListener;

pub use access::{Access, Role, Token, UnprotectedAddress};
pub use app::ServerSetup;
pub use group_sends::Uploads;
pub use limits::ServerLimits;

use app::App;
use guard::{Guard, guard};
use pages::live::Live;

/// Why the server stopped or did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Others could reach it, and nothing would keep them out.
    #[error(transparent)]
    UnprotectedAddress(#[from] UnprotectedAddress),
    /// The address cannot be listened on.
    #[error("listening on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// A server that listens and does not serve yet, so that its address is known before the first
/// request.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    site: ServerSetup,
    watch: Watch,
}

impl Server {
    /// Starts to listen. Port 0 takes any free one. An address that other machines can reach needs a
    /// token.
    pub async fn listen(address: SocketAddr, site: ServerSetup) -> Result<Self, Error> {
        site.access.check(address)?;
        let failed = |source| Error::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let watch = Watch::new(site.ops.clone());
        Ok(Self { listener, address, site, watch })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What looks at the store for all who ask: whoever shows figures beside the server need not count again.
    pub fn watch(&self) -> Watch {
        self.watch.clone()
    }

    /// Answers requests until told to stop; those under way are finished first, and so is what is being sent
    /// of uploads.
    pub async fn serve(self, stop: impl Future<Output = ()> + Send) {
        let limits = self.site.limits;
        let app = App::new(self.site, self.watch);
        let admission = Guard { app: Arc::clone(&app), listening: self.address };
        let _watching = AbortOnDrop(tokio::spawn(Live::run(Arc::clone(&app))));
        let live = Arc::clone(&app);
        let stop = async move {
            stop.await;
            live.live.close();
            live.group_sends.stop();
        };
        let router: Router = api::router()
            .merge(pages::router())
            .route("/metrics", get(metrics::metrics))
            .route("/healthz", get(health::healthz))
            .route("/readyz", get(health::readyz))
            .fallback(problem::not_found)
            .method_not_allowed_fallback(problem::method_not_allowed)
            .with_state(Arc::clone(&app))
            .layer(middleware::from_fn_with_state(admission, guard));
        connections::serve(self.listener, router, limits, stop).await;
        app.group_sends.ended().await;
    }
}

/// A task that ends with whoever started it.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
