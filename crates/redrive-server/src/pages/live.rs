//! Notifies open pages of changes.
//!
//! One task polls the store for all pages, and only while a page is open.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    http::StatusCode,
    response::{
        IntoResponse, Response, Sse,
        sse::{Event, KeepAlive},
    },
};
use futures_util::stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::{
    app::{App, AppState},
    problem::ProblemDetails,
};

const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Pages with live updates. Further pages work without them.
const MAX_PAGES: usize = 384;

/// Keep-alive messages detect closed connections.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LiveUpdate {
    /// Before the first poll.
    Unknown,
    /// The version of the overview.
    Version(u64),
    /// The server stops: open event streams would delay the shutdown.
    Closed,
}

pub(crate) struct Live {
    updates: watch::Sender<LiveUpdate>,
    pages: Arc<Semaphore>,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            updates: watch::Sender::new(LiveUpdate::Unknown),
            pages: Arc::new(Semaphore::new(MAX_PAGES)),
        }
    }
}

impl Live {
    /// Polls until aborted.
    pub(crate) async fn run(app: Arc<App>) {
        // Starts the counters of `/metrics`; an error recurs at the next refresh.
        _ = app.watch.start().await;
        let mut tick = tokio::time::interval(POLL_INTERVAL);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            if app.live.updates.receiver_count() == 0 {
                continue;
            }
            // Pages show errors of the store when they load.
            if let Ok(overview) = app.watch.newest().await {
                app.live.publish(LiveUpdate::Version(overview.version));
            }
        }
    }

    /// Ends the event streams of all pages.
    pub(crate) fn close(&self) {
        self.publish(LiveUpdate::Closed);
    }

    fn publish(&self, update: LiveUpdate) {
        self.updates.send_if_modified(|current| {
            let is_new = *current != update && *current != LiveUpdate::Closed;
            if is_new {
                *current = update;
            }
            is_new
        });
    }
}

/// The event stream of one page.
struct Subscriber {
    updates: watch::Receiver<LiveUpdate>,
    sent: Option<u64>,
    _permit: OwnedSemaphorePermit,
}

impl Subscriber {
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        loop {
            let update = *self.updates.borrow_and_update();
            match update {
                LiveUpdate::Version(version) if self.sent != Some(version) => {
                    self.sent = Some(version);
                    let event = Event::default().event("changed").data(version.to_string());
                    return Some((Ok(event), self));
                }
                LiveUpdate::Closed => return None,
                LiveUpdate::Unknown | LiveUpdate::Version(_) => {
                    self.updates.changed().await.ok()?
                }
            }
        }
    }
}

/// Server-sent events for open pages.
pub(super) async fn events(app: AppState) -> Response {
    let Ok(permit) = Arc::clone(&app.live.pages).try_acquire_owned() else {
        let what = "too many pages are open; this page gets no live updates";
        return ProblemDetails::new(StatusCode::SERVICE_UNAVAILABLE, what)
            .retry_after(60)
            .into_response();
    };
    let subscriber =
        Subscriber { updates: app.live.updates.subscribe(), sent: None, _permit: permit };
    let events = stream::unfold(subscriber, Subscriber::next);
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE_INTERVAL)).into_response()
}
