//! Accepts connections, within the limits of number and time.

use std::{convert::Infallible, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::ConnectInfo,
    http::{Request, StatusCode},
};
use futures_util::TryFutureExt;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
};
use tower_service::Service;

use crate::{ServerLimits, problem::ProblemDetails};

/// The longest head of a request. Up to twice as much is read before the length is known.
pub(crate) const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Connections over the limit that get a `503` at the same time. Further ones are closed without an answer.
const MAX_REJECTIONS: usize = 32;

const REJECTION_TIMEOUT: Duration = Duration::from_secs(1);

/// The pause after `accept` fails, usually because the process has no file descriptors left.
const ACCEPT_ERROR_PAUSE: Duration = Duration::from_millis(100);

/// Serves requests until `stop`, then finishes those in progress.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ServerLimits,
    stop: impl Future<Output = ()>,
) {
    let stopping = watch::Sender::new(false);
    let rejections = Arc::new(Semaphore::new(MAX_REJECTIONS));
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, from)) if connections.len() < limits.connections => {
                let router = router.clone();
                connections.spawn(serve_connection(
                    stream,
                    from,
                    router,
                    limits,
                    stopping.subscribe(),
                ));
            }
            Ok((stream, _)) => {
                if let Ok(permit) = Arc::clone(&rejections).try_acquire_owned() {
                    tokio::spawn(reject(stream, permit));
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
    mut stopping: watch::Receiver<bool>,
) {
    // Without the option the connection works, only slower.
    _ = stream.set_nodelay(true);
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(from));
        // A router is always ready.
        router.clone().call(request).map_err(|never: Infallible| match never {})
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.client_timeout)
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

/// Answers `503`. Reads what the client sends: otherwise a reset could discard the response.
async fn reject(mut stream: TcpStream, _permit: OwnedSemaphorePermit) {
    let response = async {
        stream.write_all(service_unavailable().as_bytes()).await?;
        stream.shutdown().await?;
        let mut unread = [0; 1024];
        while stream.read(&mut unread).await? > 0 {}
        io::Result::Ok(())
    };
    // A client that does not read is disconnected.
    _ = tokio::time::timeout(REJECTION_TIMEOUT, response).await;
}

fn service_unavailable() -> String {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    let problem = ProblemDetails::new(status, "too many connections; try again in a moment");
    let body = problem.json();
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\
         retry-after: 1\r\nconnection: close\r\n\r\n{body}",
        kind = crate::problem::PROBLEM_JSON,
    )
}
