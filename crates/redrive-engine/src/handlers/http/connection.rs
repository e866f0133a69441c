//! A connection to a server, driven by the task that uses it.
//!
//! Usual clients spawn a task for each connection; a request wakes that task, and the task wakes the
//! request. For short exchanges the two wake-ups cost more than the exchange. Here the task that waits
//! for the response reads and writes the connection itself. An idle connection is not polled at all.

use std::{
    error::Error,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::{Context, Poll},
};

use hyper::{
    Request, Response,
    body::{Body, Incoming},
    client::conn::{
        TrySendError,
        http1::{Builder, Connection, SendRequest},
    },
};

use super::connector::ServerStream;

/// Dropping it closes the connection.
pub(super) struct HttpConnection<B: Body + 'static> {
    sender: SendRequest<B>,
    /// `None` once the connection is closed.
    connection: Option<Connection<ServerStream, B>>,
    /// Whether a part of a response arrived before the connection was closed.
    has_partial_response: bool,
}

impl<B> HttpConnection<B>
where
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    /// `large_bodies` writes bodies from where they are. Otherwise they are copied behind the headers,
    /// so that a small request leaves with one plain write.
    pub(super) async fn new(stream: ServerStream, large_bodies: bool) -> hyper::Result<Self> {
        let mut builder = Builder::new();
        if !large_bodies {
            builder.writev(false);
        }
        let (sender, connection) = builder.handshake(stream).await?;
        Ok(Self { sender, connection: Some(connection), has_partial_response: false })
    }

    /// Sends a request. The error returns the request if nothing of it was sent because the server had
    /// closed the connection before.
    pub(super) async fn send(
        &mut self,
        request: Request<B>,
    ) -> Result<Response<Incoming>, TrySendError<Request<B>>> {
        let mut response = pin!(self.sender.try_send_request(request));
        poll_fn(|context| {
            if let Poll::Ready(response) = response.as_mut().poll(context) {
                return Poll::Ready(response);
            }
            self.drive(context);
            response.as_mut().poll(context)
        })
        .await
    }

    /// Reads from and writes to the socket as far as possible without waiting.
    pub(super) fn drive(&mut self, context: &mut Context<'_>) {
        if let Some(open) = &mut self.connection
            && Pin::new(open).poll(context).is_ready()
        {
            self.close();
        }
    }

    /// A closed connection delivers its error to the request.
    fn close(&mut self) {
        if let Some(open) = self.connection.take() {
            self.has_partial_response = !open.into_parts().read_buf.is_empty();
        }
    }

    /// Closes the connection after an error. Returns whether nothing of a response had arrived.
    pub(super) fn close_without_response(mut self) -> bool {
        self.close();
        !self.has_partial_response
    }

    /// Whether the last response was read to its end and another request may follow.
    pub(super) fn is_free(&self) -> bool {
        self.connection.is_some() && self.sender.is_ready()
    }
}
