//! Sends requests to one server, over connections that are used again.

use std::{
    error::Error,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use http::{Request, Uri, response::Parts};
use hyper::body::{Body, Incoming};
use tokio::time::{Instant, sleep_until};
use tower_service::Service;

use super::{
    body::{BodyEnd, Kept},
    connection::{Connector, connector},
    line::Line,
    spec::{HttpSpec, InvalidHttp},
};
use redrive_retry::monotonic;

/// The most connections that wait for the next request.
const MAX_IDLE_CONNECTIONS: usize = 256;

/// How long a connection waits for the next request. Many servers close theirs after 5 seconds; a
/// request that crosses with that is a failed attempt, so this side is the first to close.
const MAX_IDLE_TIME: Duration = Duration::from_secs(4);

/// Sends requests with a kind of body, one at a time on each connection.
pub(crate) struct Client<B: Body + 'static> {
    url: Uri,
    connector: Connector,
    idle: Arc<Idle<B>>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAnswer {
    /// There is no way to the server. Nothing was sent.
    #[error("no connection")]
    NoWay(#[source] Box<dyn Error + Send + Sync>),
    /// The connection broke, or what came over it was no answer.
    #[error("no answer")]
    Broken(#[source] hyper::Error),
}

/// The body of an answer, still to be read.
pub(crate) struct AnswerBody<B: Body + 'static> {
    body: Incoming,
    line: Box<Line<B>>,
    idle: Arc<Idle<B>>,
}

impl<B> Client<B>
where
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    /// A client for one specification.
    pub(crate) fn new(spec: &HttpSpec) -> Result<Self, InvalidHttp> {
        let (url, connector) = (spec.url.clone(), connector(spec)?);
        Ok(Self { url, connector, idle: Arc::default() })
    }

    /// Sends a request and waits for the head of its answer. The request names its path and its host.
    ///
    /// A connection that the server closed while it was idle is no failure, as long as nothing was sent
    /// over it; what may have been received is never sent again.
    pub(crate) async fn request(
        &self,
        mut request: Request<B>,
    ) -> Result<(Parts, AnswerBody<B>), NoAnswer> {
        loop {
            let (mut line, used) = match self.idle.take() {
                Some(line) => (line, true),
                None => (self.connect().await?, false),
            };
            match line.send(request).await {
                Ok(answer) => {
                    let (head, body) = answer.into_parts();
                    return Ok((head, AnswerBody { body, line, idle: self.idle.clone() }));
                }
                Err(mut error) => match error.take_message() {
                    Some(unsent) if used => request = unsent,
                    _ => return Err(NoAnswer::Broken(error.into_error())),
                },
            }
        }
    }

    async fn connect(&self) -> Result<Box<Line<B>>, NoAnswer> {
        let mut connector = self.connector.clone();
        poll_fn(|context| connector.poll_ready(context)).await.map_err(NoAnswer::NoWay)?;
        let stream = connector.call(self.url.clone()).await.map_err(NoAnswer::NoWay)?;
        Line::new(stream).await.map(Box::new).map_err(NoAnswer::Broken)
    }
}

impl<B> AnswerBody<B>
where
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    /// Reads what is to be kept. The connection is free for another request if that was all.
    pub(crate) async fn read(mut self, kept: &mut Kept) -> BodyEnd {
        let end = self.line.while_moving(kept.read(self.body)).await;
        if self.line.is_free() {
            self.idle.put(self.line);
        }
        end
    }
}

/// Connections that wait for the next request.
struct Idle<B: Body + 'static>(Mutex<Waiting<B>>);

struct Waiting<B: Body + 'static> {
    /// The longest first.
    lines: Vec<(Instant, Box<Line<B>>)>,
    /// Whether someone closes those that wait too long.
    watched: bool,
}

impl<B: Body + 'static> Default for Idle<B> {
    fn default() -> Self {
        Self(Mutex::new(Waiting { lines: Vec::new(), watched: false }))
    }
}

impl<B> Idle<B>
where
    B: Body<Data: Send> + Send + 'static,
{
    /// The one that was used last: the others may close.
    fn take(&self) -> Option<Box<Line<B>>> {
        let (since, line) = self.waiting().lines.pop()?;
        (since.elapsed() < MAX_IDLE_TIME).then_some(line)
    }

    fn put(self: &Arc<Self>, line: Box<Line<B>>) {
        let mut waiting = self.waiting();
        if waiting.lines.len() < MAX_IDLE_CONNECTIONS {
            waiting.lines.push((monotonic(), line));
            if !std::mem::replace(&mut waiting.watched, true) {
                tokio::spawn(close_in_time(Arc::downgrade(self)));
            }
        }
    }

    /// Closes those that waited too long. Says when the next one has, if there is one.
    fn close_old(&self) -> Option<Instant> {
        let mut waiting = self.waiting();
        let old = waiting.lines.partition_point(|(since, _)| since.elapsed() >= MAX_IDLE_TIME);
        let closed: Vec<_> = waiting.lines.drain(..old).collect();
        let next = waiting.lines.first().map(|(since, _)| *since + MAX_IDLE_TIME);
        waiting.watched = next.is_some();
        drop(waiting);
        drop(closed);
        next
    }

    /// A panic while the lock was held leaves the list as it was: every change is one push or one pop.
    fn waiting(&self) -> MutexGuard<'_, Waiting<B>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes connections that wait too long, until none waits any more, or the client is gone.
async fn close_in_time<B>(idle: Weak<Idle<B>>)
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
