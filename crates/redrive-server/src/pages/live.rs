//! Telling open pages that something changed.
//!
//! One task looks at the store for all of them, and only while there is a page to tell.

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
    app::{App, Shared},
    problem::Problem,
};

/// How often it is looked whether anything changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Pages that are told at once. More are shown, and not kept up to date.
const MAX_PAGES: usize = 1_000;

/// Who tells open pages.
pub(crate) struct Live {
    version: watch::Sender<u64>,
    closed: watch::Sender<bool>,
    pages: Arc<Semaphore>,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            version: watch::Sender::new(0),
            closed: watch::Sender::new(false),
            pages: Arc::new(Semaphore::new(MAX_PAGES)),
        }
    }
}

impl Live {
    /// Tells nobody any more: a server that stops does not wait for pages that are open.
    pub(crate) fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Looks for as long as the server runs.
    pub(crate) async fn run(app: Arc<App>) {
        // What is attempted from now on is counted.
        _ = app.watch.overview().await;
        let mut tick = tokio::time::interval(LOOK_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            if app.live.version.receiver_count() == 0 {
                continue;
            }
            // A store that does not answer is no change; pages that ask will be told.
            if let Ok(overview) = app.watch.overview().await {
                app.live.version.send_if_modified(|version| {
                    let changed = *version != overview.version;
                    *version = overview.version;
                    changed
                });
            }
        }
    }
}

/// What one page is told from.
struct Listener {
    version: watch::Receiver<u64>,
    closed: watch::Receiver<bool>,
    told: Option<u64>,
    _permit: OwnedSemaphorePermit,
}

impl Listener {
    /// Waits until there is something to tell.
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        loop {
            let version = *self.version.borrow_and_update();
            if version > 0 && self.told != Some(version) {
                self.told = Some(version);
                let event = Event::default().event("changed").data(version.to_string());
                return Some((Ok(event), self));
            }
            tokio::select! {
                changed = self.version.changed() => changed.ok()?,
                _ = self.closed.wait_for(|closed| *closed) => return None,
            }
        }
    }
}

/// The changes, as they happen.
pub(super) async fn events(app: Shared) -> Response {
    let Ok(permit) = Arc::clone(&app.live.pages).try_acquire_owned() else {
        let what = "too many pages are open; this one is not kept up to date";
        return Problem::new(StatusCode::SERVICE_UNAVAILABLE, what).into_response();
    };
    let listener = Listener {
        version: app.live.version.subscribe(),
        closed: app.live.closed.subscribe(),
        told: None,
        _permit: permit,
    };
    let events = stream::unfold(listener, Listener::next);
    Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(20))).into_response()
}
