//! A connection to a server, moved along by whoever uses it.
//!
//! The usual way is a task for each connection, which a request wakes, and which wakes the request. For
//! short exchanges that costs more than the exchange. Here the task that waits for an answer reads and
//! writes the connection itself, and one that nobody uses is looked at by nobody until it is used again.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::Poll,
};

use hyper::{
    Request, Response,
    body::{Body, Incoming},
    client::conn::{
        TrySendError,
        http1::{Builder, Connection, SendRequest},
    },
};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Bytes to and from a server, encrypted or not.
pub(super) type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

/// One connection. Dropping it closes it.
pub(super) struct Line<B: Body + 'static> {
    sender: SendRequest<B>,
    /// `None` once it is closed.
    connection: Option<Connection<Stream, B>>,
}

impl<B> Line<B>
where
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    pub(super) async fn new(stream: Stream) -> hyper::Result<Self> {
        // Most requests are small: copied together they leave in one piece, with the cheaper call.
        let (sender, connection) = Builder::new().writev(false).handshake(stream).await?;
        Ok(Self { sender, connection: Some(connection) })
    }

    /// Sends a request. It comes back with the error if nothing of it was sent: the server had closed
    /// the connection before.
    pub(super) async fn send(
        &mut self,
        request: Request<B>,
    ) -> Result<Response<Incoming>, TrySendError<Request<B>>> {
        let answer = self.sender.try_send_request(request);
        self.while_moving(answer).await
    }

    /// Waits for something that the connection brings.
    pub(super) async fn while_moving<F: Future>(&mut self, wanted: F) -> F::Output {
        let mut wanted = pin!(wanted);
        poll_fn(|context| {
            if let Poll::Ready(there) = wanted.as_mut().poll(context) {
                return Poll::Ready(there);
            }
            // What a closed connection still has to say, it says when it is dropped.
            if let Some(connection) = &mut self.connection
                && Pin::new(connection).poll(context).is_ready()
            {
                self.connection = None;
            }
            wanted.as_mut().poll(context)
        })
        .await
    }

    /// Whether the last answer was read to its end and another request may follow.
    pub(super) fn is_free(&self) -> bool {
        self.connection.is_some() && self.sender.is_ready()
    }
}
