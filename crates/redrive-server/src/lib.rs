//! The HTTP server of Redrive: the dashboard, the API under `/v1`, metrics and health checks.
//!
//! The server does not access the database: it uses the same [`Ops`](redrive_ops::Ops) as the command line.
//!
//! - `/`: the dashboard, rendered on the server.
//! - `/v1/…`: the API, described by `/openapi.json`.
//! - `/metrics`: metrics for Prometheus.
//! - `/healthz`: the process answers. `/readyz`: the store answers too.

mod access;
mod api;
mod app;
mod client_address;
mod connections;
mod extract;
mod group_sends;
mod guard;
mod health;
mod limits;
mod line_ends;
mod metrics;
mod network;
mod pages;
mod params;
mod problem;
mod problem_kind;
mod rate_limit;
mod sessions;
mod write_timeout;

use std::{future::Future, net::SocketAddr, sync::Arc};

use axum::{Router, middleware, routing::get};
use redrive_ops::Watch;
use tokio::net::TcpListener;

pub use access::{Access, NamedToken, Role, Token, UnprotectedAddress};
pub use app::ServerSetup;
pub use group_sends::Uploads;
pub use limits::ServerLimits;
pub use network::{InvalidNetwork, Network};
pub use sessions::random_text;

use app::App;
use guard::{Guard, guard};
use pages::live::Live;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    #[error(transparent)]
    UnprotectedAddress(#[from] UnprotectedAddress),
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
}

/// A server that listens but does not serve yet, so that its address is known before the first request.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    setup: ServerSetup,
    watch: Watch,
}

impl Server {
    /// Port 0 selects a free port. An address that other machines can reach requires a token.
    pub async fn listen(address: SocketAddr, setup: ServerSetup) -> Result<Self, ServerError> {
        setup.access.check(address)?;
        let failed = |source| ServerError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let watch = Watch::new(setup.ops.clone());
        Ok(Self { listener, address, setup, watch })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The overview cache of the server, for other users in the same process.
    pub fn watch(&self) -> Watch {
        self.watch.clone()
    }

    /// Serves requests until `stop`, then finishes the requests and uploads in progress.
    pub async fn serve(self, stop: impl Future<Output = ()> + Send) {
        let limits = self.setup.limits;
        let app = App::new(self.setup, self.watch);
        let guard_state = Guard { app: Arc::clone(&app), listening: self.address };
        let _live = AbortOnDrop(tokio::spawn(Live::run(Arc::clone(&app))));
        let stopping = Arc::clone(&app);
        let stop = async move {
            stop.await;
            stopping.live.close();
            stopping.group_sends.stop();
        };
        let router: Router = api::router()
            .merge(pages::router())
            .route("/metrics", get(metrics::metrics))
            .route("/healthz", get(health::healthz))
            .route("/readyz", get(health::readyz))
            .fallback(problem::not_found)
            .method_not_allowed_fallback(problem::method_not_allowed)
            .with_state(Arc::clone(&app))
            .layer(middleware::from_fn_with_state(guard_state, guard));
        let is_proxy = |ip| app.access.is_trusted_proxy(ip);
        connections::serve(self.listener, router, limits, is_proxy, stop).await;
        app.group_sends.join().await;
    }
}

/// A task that is aborted when the handle is dropped.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
