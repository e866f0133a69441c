//! Receives notifications that other processes made work claimable.
//!
//! A process that makes work claimable notifies a channel, and PostgreSQL forwards the notification. One task
//! per store listens, on a connection outside of the pool. Notifications only save time: workers poll as well.
//! So a connection that fails is logged and made again, and no caller sees an error.

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

use crate::{error, pool::ConnectionTimeouts, tls, url::ConnectionTarget};

/// The channel is the one that [`notify_wake`](crate::queries::NOTIFY_WAKE) names.
const LISTEN: &str = "LISTEN redrive_wake";

const LISTENING: &str = "listening for notifications";

/// The wait before connecting again; it doubles with each failure up to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The listening task. Dropping this ends it.
pub(crate) struct WakeListener(AbortHandle);

impl WakeListener {
    pub(crate) fn start(
        runtime: &Handle,
        target: ConnectionTarget,
        timeouts: ConnectionTimeouts,
        wakes: Wakes,
    ) -> Self {
        Self(runtime.spawn(listen(target, timeouts, wakes)).abort_handle())
    }
}

impl Drop for WakeListener {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn listen(target: ConnectionTarget, timeouts: ConnectionTimeouts, wakes: Wakes) {
    let mut wait = FIRST_WAIT;
    loop {
        let mut listening = false;
        let Err(error) = listen_once(&target, timeouts, &wakes, &mut listening).await;
        if listening {
            wait = FIRST_WAIT;
        }
        let (place, error) = (target.address(), error_chain(&error));
        // One warning per outage.
        if wait == FIRST_WAIT {
            tracing::warn!(
                place,
                error,
                "cannot receive notifications from PostgreSQL; workers poll until the connection is back"
            );
        } else {
            tracing::debug!(place, error, "still cannot receive notifications from PostgreSQL");
        }
        sleep(wait).await;
        wait = wait.saturating_mul(2).min(LONGEST_WAIT);
    }
}

/// Listens for as long as the connection lasts.
async fn listen_once(
    target: &ConnectionTarget,
    timeouts: ConnectionTimeouts,
    wakes: &Wakes,
    listening: &mut bool,
) -> Result<Infallible> {
    let (config, tls) = (timeouts.config_for(target), tls::connector(&target.trust)?);
    let starting = async {
        let connected = config.connect(tls).await;
        let (client, mut connection) = connected.map_err(|error| broken(Some(error)))?;
        subscribe(&client, &mut connection).await?;
        Ok((client, connection))
    };
    // The connection lasts as long as its client.
    let (_client, mut connection) = timeout(timeouts.connect, starting)
        .await
        .unwrap_or_else(|_| Err(error::timed_out(LISTENING, timeouts.connect)))?;
    *listening = true;
    tracing::debug!(place = target.address(), "listening for notifications");
    // Work may have become claimable while no connection listened.
    wakes.wake();
    Err(poll_fn(|context| poll_end(&mut connection, context, || wakes.wake())).await)
}

/// Subscribes to the channel. The connection makes progress only while it is polled.
async fn subscribe<S, T>(client: &Client, connection: &mut Connection<S, T>) -> Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let mut subscribing = pin!(client.batch_execute(LISTEN));
    poll_fn(|context| match subscribing.as_mut().poll(context) {
        Poll::Ready(answer) => Poll::Ready(answer.map_err(|error| broken(Some(error)))),
        Poll::Pending => poll_end(connection, context, || ()).map(Err),
    })
    .await
}

/// Drives the connection, and is ready when the connection has ended.
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

/// An error with its causes, on one line without control characters.
fn error_chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text.push_str(": ");
        text.push_str(&source.to_string());
        cause = source.source();
    }
    Message::clean(&text.replace('\n', " ")).as_str().to_owned()
}
