//! The HTTP client of the engine: requests to one server, over connections that are reused.

use std::{
    error::Error,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, Uri, response::Parts};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use redrive_retry::monotonic;
use tokio::{
    runtime::Handle,
    time::{Instant, sleep_until},
};

use super::{
    connection::HttpConnection,
    connector::ServerConnector,
    spec::{HttpSpec, InvalidHttp},
};

/// The most idle connections of a client.
const MAX_IDLE_CONNECTIONS: usize = 256;

/// How long a connection may be idle. Many servers close idle connections after 5 seconds; a request
/// that crosses with the close has to be sent again, so this side closes first.
const MAX_IDLE_TIME: Duration = Duration::from_secs(4);

/// Sends requests to the server of one URL, one at a time on each connection.
pub(crate) struct HttpClient<B: Body + 'static> {
    url: Uri,
    connector: ServerConnector,
    large_bodies: bool,
    idle: Arc<IdleConnections<B>>,
}

/// Why a request has no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoResponse {
    /// No connection could be opened. Nothing was sent.
    #[error("no connection")]
    NotConnected(#[source] Box<dyn Error + Send + Sync>),
    /// The connection broke, or the server sent something that is no HTTP response.
    #[error("no response")]
    Broken(#[source] hyper::Error),
    /// A reused connection was closed before the first byte of a response. The server had probably closed it while it
    /// was idle, but may have received the request. [`HttpClient::request_anew`] sends an idempotent request again.
    #[error("no response")]
    Dropped(#[source] hyper::Error),
}

/// The body of a response. Reading it drives its connection; when it is dropped, the connection is
/// reused if the response was received completely, and closed otherwise.
pub(crate) struct ResponseBody<B>
where
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    body: Incoming,
    /// Taken when the body is dropped.
    connection: Option<Box<HttpConnection<B>>>,
    idle: Arc<IdleConnections<B>>,
}

impl<B> HttpClient<B>
where
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    pub(crate) fn for_spec(spec: &HttpSpec) -> Result<Self, InvalidHttp> {
        Ok(Self::new(spec.url.clone(), ServerConnector::for_spec(spec)?))
    }

    pub(crate) fn new(url: Uri, connector: ServerConnector) -> Self {
        Self { url, connector, large_bodies: false, idle: Arc::default() }
    }

    /// Sends bodies of megabytes without copying them.
    #[cfg(feature = "objects")]
    pub(crate) fn with_large_bodies(self) -> Self {
        Self { large_bodies: true, ..self }
    }

    /// Sends a request and waits for the head of its response. The request carries the path as its URI,
    /// and a `host` header.
    ///
    /// A request that met a connection which the server had closed while it was idle is sent again, on
    /// another connection. A request that the server may have received is not sent again.
    pub(crate) async fn request(
        &self,
        mut request: Request<B>,
    ) -> Result<(Parts, ResponseBody<B>), NoResponse> {
        while let Some(mut connection) = self.idle.take() {
            let mut error = match connection.send(request).await {
                Ok(response) => return Ok(self.response(response, connection)),
                Err(error) => error,
            };
            match error.take_message() {
                Some(unsent) => request = unsent,
                None => {
                    let error = error.into_error();
                    // A body that cannot be read is not the fault of the connection.
                    let is_dropped = !error.is_user() && connection.close_without_response();
                    let kind = if is_dropped { NoResponse::Dropped } else { NoResponse::Broken };
                    return Err(kind(error));
                }
            }
        }
        self.request_anew(request).await
    }

    /// As [`Self::request`], on a new connection.
    pub(crate) async fn request_anew(
        &self,
        request: Request<B>,
    ) -> Result<(Parts, ResponseBody<B>), NoResponse> {
        let mut connection = self.connect().await?;
        match connection.send(request).await {
            Ok(response) => Ok(self.response(response, connection)),
            Err(error) => Err(NoResponse::Broken(error.into_error())),
        }
    }

    fn response(
        &self,
        response: Response<Incoming>,
        connection: Box<HttpConnection<B>>,
    ) -> (Parts, ResponseBody<B>) {
        let (head, body) = response.into_parts();
        (head, ResponseBody { body, connection: Some(connection), idle: self.idle.clone() })
    }

    async fn connect(&self) -> Result<Box<HttpConnection<B>>, NoResponse> {
        let stream = self.connector.connect(&self.url).await.map_err(NoResponse::NotConnected)?;
        let connection = HttpConnection::new(stream, self.large_bodies).await;
        connection.map(Box::new).map_err(NoResponse::Broken)
    }
}

impl<B> Body for ResponseBody<B>
where
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame);
        }
        if let Some(connection) = &mut self.connection {
            connection.drive(context);
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for ResponseBody<B>
where
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take().filter(|connection| connection.is_free()) {
            self.idle.put(connection);
        }
    }
}

/// Connections that wait for the next request.
struct IdleConnections<B: Body + 'static>(Mutex<IdleList<B>>);

struct IdleList<B: Body + 'static> {
    /// Oldest first.
    connections: Vec<(Instant, Box<HttpConnection<B>>)>,
    /// Whether a task closes the connections that are idle for too long.
    has_closer: bool,
}

impl<B: Body + 'static> Default for IdleConnections<B> {
    fn default() -> Self {
        Self(Mutex::new(IdleList { connections: Vec::new(), has_closer: false }))
    }
}

impl<B> IdleConnections<B>
where
    B: Body<Data: Send> + Send + 'static,
{
    /// Takes the connection that was used last, so that the others can close.
    fn take(&self) -> Option<Box<HttpConnection<B>>> {
        let (since, connection) = self.list().connections.pop()?;
        (since.elapsed() < MAX_IDLE_TIME).then_some(connection)
    }

    /// A body may be dropped outside of a runtime; its connection is closed then.
    fn put(self: &Arc<Self>, connection: Box<HttpConnection<B>>) {
        let Ok(runtime) = Handle::try_current() else { return };
        let mut list = self.list();
        if list.connections.len() < MAX_IDLE_CONNECTIONS {
            list.connections.push((monotonic(), connection));
            if !std::mem::replace(&mut list.has_closer, true) {
                runtime.spawn(close_old_connections(Arc::downgrade(self)));
            }
        }
    }

    /// Closes the connections that are idle for too long. Returns when the next one will be.
    fn close_old(&self) -> Option<Instant> {
        let mut list = self.list();
        let old = list.connections.partition_point(|(since, _)| since.elapsed() >= MAX_IDLE_TIME);
        let closed: Vec<_> = list.connections.drain(..old).collect();
        let next = list.connections.first().map(|(since, _)| *since + MAX_IDLE_TIME);
        list.has_closer = next.is_some();
        drop(list);
        drop(closed);
        next
    }

    /// A panic while the lock was held leaves the list consistent: every change is one push or one pop.
    fn list(&self) -> MutexGuard<'_, IdleList<B>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends when no connection is idle, or when the client is dropped.
async fn close_old_connections<B>(idle: Weak<IdleConnections<B>>)
where
    B: Body<Data: Send> + Send + 'static,
{
    let mut next = monotonic() + MAX_IDLE_TIME;
    loop {
        sleep_until(next).await;
        match idle.upgrade().and_then(|idle| idle.close_old()) {
            Some(later) => next = later,
            None => return,
        }
    }
}
