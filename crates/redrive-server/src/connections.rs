//! Accepts connections, within the limits of number, address and time.
//!
//! A connection over the limits takes one of a few reserved places, which answer health checks and tell every other
//! request to come back. So a client with many idle connections locks out neither other clients nor health checks.

use std::{
    collections::HashMap,
    convert::Infallible,
    io,
    net::{IpAddr, SocketAddr},
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::ConnectInfo,
    http::{HeaderValue, Request, StatusCode, header},
    response::{IntoResponse, Response},
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};
use tower_service::Service;

use crate::{
    ServerLimits, client_address::limited_as, guard::is_health_check, line_ends::LineEnds,
    problem::ProblemDetails, problem_kind::ProblemKind, write_timeout::WriteTimeout,
};

/// The longest head of a request. Up to twice as much is read before the length is known.
pub(crate) const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Reserved places, and those for one address. Further connections are closed without an answer.
const RESERVED: usize = 32;
const RESERVED_PER_ADDRESS: usize = 8;

/// The time for a request on a reserved place: health checks are sent at once.
const RESERVED_HEAD_TIMEOUT: Duration = Duration::from_secs(1);

/// The pause after `accept` fails, usually because the process has no file descriptors left.
const ACCEPT_ERROR_PAUSE: Duration = Duration::from_millis(100);

/// Serves requests until `stop`, then finishes those in progress. `is_proxy` exempts addresses from the limit for
/// one address.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ServerLimits,
    is_proxy: impl Fn(IpAddr) -> bool,
    stop: impl Future<Output = ()>,
) {
    let stopping = watch::Sender::new(false);
    let places = Places::new(limits.connections, limits.connections_per_address);
    let reserved = Places::new(RESERVED, RESERVED_PER_ADDRESS);
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, from)) => {
                let place = places
                    .take(from.ip(), is_proxy(from.ip()))
                    .map(|place| (place, PlaceKind::Ordinary))
                    .or_else(|| Some((reserved.take(from.ip(), false)?, PlaceKind::Reserved)));
                if let Some((place, kind)) = place {
                    let (router, stopping) = (router.clone(), stopping.subscribe());
                    connections.spawn(async move {
                        let _place = place;
                        serve_connection(stream, from, router, limits, kind, stopping).await;
                    });
                }
            }
            // The client closed the connection; the next one can be accepted at once.
            Err(error) if is_client_error(&error) => {}
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "cannot accept connections"
                );
                tokio::time::sleep(ACCEPT_ERROR_PAUSE).await;
            }
        }
    }
    drop(listener);
    stopping.send_replace(true);
    while connections.join_next().await.is_some() {}
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlaceKind {
    Ordinary,
    Reserved,
}

/// A number of connections, in total and for each address.
struct Places {
    total: usize,
    per_address: usize,
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Places {
    fn new(total: usize, per_address: usize) -> Self {
        Self { total, per_address, taken: Arc::default() }
    }

    /// Takes a place that is free again once it is dropped.
    fn take(&self, from: IpAddr, is_proxy: bool) -> Option<Place> {
        let from = limited_as(from);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, own) = (taken.values().sum::<usize>(), taken.get(&from).copied().unwrap_or(0));
        if all >= self.total || (own >= self.per_address && !is_proxy) {
            return None;
        }
        taken.insert(from, own + 1);
        Some(Place { from, taken: Arc::clone(&self.taken) })
    }
}

struct Place {
    from: IpAddr,
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        match taken.get_mut(&self.from) {
            Some(own) if *own > 1 => *own -= 1,
            _ => _ = taken.remove(&self.from),
        }
    }
}

fn is_client_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Serves the requests of a connection in order.
async fn serve_connection(
    stream: TcpStream,
    from: SocketAddr,
    router: Router,
    limits: ServerLimits,
    kind: PlaceKind,
    mut stopping: watch::Receiver<bool>,
) {
    // Without the option the connection works, only slower.
    _ = stream.set_nodelay(true);
    let service = service_fn(move |request: Request<Incoming>| {
        let mut router = router.clone();
        async move {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(ConnectInfo(from));
            if kind == PlaceKind::Reserved && !is_health_check(request.uri().path()) {
                return Ok(too_many_connections(request).await);
            }
            let is_chunked = request.headers().contains_key(header::TRANSFER_ENCODING);
            // A router is always ready.
            let mut response =
                router.call(request).await.map_err(|never: Infallible| match never {})?;
            if is_chunked {
                LineEnds::end_after(&mut response);
            }
            Ok::<_, Infallible>(response)
        }
    });
    let head_timeout = match kind {
        PlaceKind::Ordinary => limits.client_timeout,
        PlaceKind::Reserved => limits.client_timeout.min(RESERVED_HEAD_TIMEOUT),
    };
    let stream = LineEnds::new(WriteTimeout::new(stream, limits.client_timeout));
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(head_timeout)
            .keep_alive(kind == PlaceKind::Ordinary)
            // A client may close its sending side and still read the response.
            .half_close(true)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service)
    );
    tokio::select! {
        // Errors of the connection are the errors of the client.
        _ = connection.as_mut() => return,
        _ = stopping.wait_for(|stopping| *stopping) => connection.as_mut().graceful_shutdown(),
    }
    _ = connection.await;
}

/// Answers `503`. Reads a short body first: otherwise a reset could discard the response.
async fn too_many_connections(request: Request<Body>) -> Response {
    let body = to_bytes(request.into_body(), MAX_HEAD_BYTES);
    _ = tokio::time::timeout(RESERVED_HEAD_TIMEOUT, body).await;
    let what = "too many connections; try again in a moment";
    let problem = ProblemDetails::new(StatusCode::SERVICE_UNAVAILABLE, what).retry_after(1);
    let mut response = problem.kind(ProblemKind::TooManyConnections).into_response();
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
