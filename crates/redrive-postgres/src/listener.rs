//! Hearing of what other processes did.
//!
//! Who brings something to claim notifies a channel, and PostgreSQL passes that on. One task per store
//! listens, on a connection of its own, because a pooled one is handed on. It is a hint that saves time,
//! and never needed: who waits for work polls as well. So a connection that cannot be had or breaks is
//! logged and made again, and nobody fails for it.

use std::{
    convert::Infallible,
    error::Error as _,
    future::poll_fn,
    pin::pin,
    task::{Context, Poll},
    time::Duration,
};

use redrive_core::Message;
use redrive_store::{Error, Result, Wakes};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    runtime::Handle,
    task::AbortHandle,
    time::{sleep, timeout},
};
use tokio_postgres::{AsyncMessage, Client, Connection};

use crate::{error, pool::Limits, tls, url::Target};

/// The channel is the one that [`notify_wake`](crate::queries::NOTIFY_WAKE) names.
const LISTEN: &str = "LISTEN redrive_wake";

const LISTENING: &str = "listening for notifications";

/// The wait before the first try to connect again; each further one is twice as long, up to the last.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A task that listens until this is dropped.
pub(crate) struct Listener(AbortHandle);

impl Listener {
    pub(crate) fn start(runtime: &Handle, target: Target, limits: Limits, wakes: Wakes) -> Self {
        Self(runtime.spawn(listen(target, limits, wakes)).abort_handle())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn listen(target: Target, limits: Limits, wakes: Wakes) {
    let mut wait = FIRST_WAIT;
    loop {
        let mut listening = false;
        let Err(error) = hear(&target, limits, &wakes, &mut listening).await;
        if listening {
            wait = FIRST_WAIT;
        }
        let (place, error) = (target.place(), told(&error));
        // Once for each outage; the rest is for those who look closely.
        if wait == FIRST_WAIT {
            tracing::warn!(place, error, "notifications stopped; polling goes on");
        } else {
            tracing::debug!(place, error, "notifications are still missing");
        }
        sleep(wait).await;
        wait = wait.saturating_mul(2).min(LONGEST_WAIT);
    }
}

/// Listens for as long as the connection lasts.
async fn hear(
    target: &Target,
    limits: Limits,
    wakes: &Wakes,
    listening: &mut bool,
) -> Result<Infallible> {
    let (config, tls) = (limits.bind(target), tls::connector(&target.trust)?);
    let starting = async {
        let connected = config.connect(tls).await;
        let (client, mut connection) = connected.map_err(|error| broken(Some(error)))?;
        ask(&client, &mut connection).await?;
        Ok((client, connection))
    };
    // The connection lasts as long as its client.
    let (_client, mut connection) = timeout(limits.connect, starting)
        .await
        .unwrap_or_else(|_| Err(error::timed_out(LISTENING, limits.connect)))?;
    *listening = true;
    tracing::debug!(place = target.place(), "listening for notifications");
    // Something may have come while nobody listened.
    wakes.wake();
    Err(poll_fn(|context| poll_end(&mut connection, context, || wakes.wake())).await)
}

/// Asks the server to pass notifications on. The connection moves only while it is polled.
async fn ask<S, T>(client: &Client, connection: &mut Connection<S, T>) -> Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let mut asking = pin!(client.batch_execute(LISTEN));
    poll_fn(|context| match asking.as_mut().poll(context) {
        Poll::Ready(answer) => Poll::Ready(answer.map_err(|error| broken(Some(error)))),
        Poll::Pending => poll_end(connection, context, || ()).map(Err),
    })
    .await
}

/// Moves the connection along, and is done when it has ended.
fn poll_end<S, T>(
    connection: &mut Connection<S, T>,
    context: &mut Context<'_>,
    notified: impl Fn(),
) -> Poll<Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        match connection.poll_message(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Some(Ok(AsyncMessage::Notification(_)))) => notified(),
            Poll::Ready(Some(Ok(_))) => {}
            Poll::Ready(Some(Err(error))) => return Poll::Ready(broken(Some(error))),
            Poll::Ready(None) => return Poll::Ready(broken(None)),
        }
    }
}

fn broken(error: Option<tokio_postgres::Error>) -> Error {
    match error {
        Some(error) => error::database(LISTENING, error),
        None => Error::Unavailable {
            doing: LISTENING.to_owned(),
            source: "the connection was closed".into(),
        },
    }
}

/// An error with its causes, on one line that a terminal can show.
fn told(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text.push_str(": ");
        text.push_str(&source.to_string());
        cause = source.source();
    }
    Message::clean(&text.replace('\n', " ")).as_str().to_owned()
}
