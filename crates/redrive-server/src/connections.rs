//! Who is listened to: so many at once, and only those who say something.

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

/// The longest head of a request. What is read before it is known to be too long may be twice that.
pub(crate) const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Clients that are told at once that there is no room. More are hung up on.
const MAX_TURNED_AWAY: usize = 32;

/// How long that may take.
const TURNING_AWAY: Duration = Duration::from_secs(1);

/// How long nobody is let in after the system would not: it has no files left, mostly.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// Answers requests until told to stop, and then those that are under way.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ServerLimits,
    stop: impl Future<Output = ()>,
) {
    let stopping = watch::Sender::new(false);
    let turned_away = Arc::new(Semaphore::new(MAX_TURNED_AWAY));
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
                connections.spawn(converse(stream, from, router, limits, stopping.subscribe()));
            }
            Ok((stream, _)) => {
                if let Ok(permit) = Arc::clone(&turned_away).try_acquire_owned() {
                    tokio::spawn(turn_away(stream, permit));
                }
            }
            // Who hung up before being let in is no reason to wait.
            Err(error) if is_of_the_client(&error) => {}
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "nobody can be let in");
                tokio::time::sleep(AFTER_ERROR).await;
            }
        }
    }
    drop(listener);
    stopping.send_replace(true);
    while connections.join_next().await.is_some() {}
}

fn is_of_the_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Answers what comes on a connection, one request after the other.
async fn converse(
    stream: TcpStream,
    from: SocketAddr,
    router: Router,
    limits: ServerLimits,
    mut stopping: watch::Receiver<bool>,
) {
    // Slower, where it cannot be set.
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
            // Who has said all may close that side, and still wants to hear the answer.
            .half_close(true)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service)
    );
    tokio::select! {
        // Whoever breaks off knows that.
        _ = connection.as_mut() => return,
        _ = stopping.wait_for(|stopping| *stopping) => connection.as_mut().graceful_shutdown(),
    }
    _ = connection.await;
}

/// Says that there is no room. What the client says is read, or it might not hear the answer.
async fn turn_away(mut stream: TcpStream, _permit: OwnedSemaphorePermit) {
    let telling = async {
        stream.write_all(no_room().as_bytes()).await?;
        stream.shutdown().await?;
        let mut unread = [0; 1024];
        while stream.read(&mut unread).await? > 0 {}
        io::Result::Ok(())
    };
    // Who does not listen is let go.
    _ = tokio::time::timeout(TURNING_AWAY, telling).await;
}

fn no_room() -> String {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    let problem = ProblemDetails::new(status, "too many are connected; come back in a moment");
    let body = problem.json();
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\
         retry-after: 1\r\nconnection: close\r\n\r\n{body}",
        kind = crate::problem::PROBLEM_JSON,
    )
}
