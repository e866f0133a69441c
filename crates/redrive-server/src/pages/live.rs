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
    app::{App, AppState},
    problem::ProblemDetails,
};

/// How often it is looked whether anything changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Pages that are told at once. More are shown, and not kept up to date.
const MAX_PAGES: usize = 384;

/// How often a page hears something even if nothing changed: so it is found that one has gone.
const SIGN_OF_LIFE_EVERY: Duration = Duration::from_secs(10);

/// What there is to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LiveUpdate {
    /// Nobody looked yet.
    Nothing,
    /// Everything is as this version has it.
    Version(u64),
    /// The server stops: a page that waits would keep it.
    Over,
}

/// Who tells open pages.
pub(crate) struct Live {
    news: watch::Sender<LiveUpdate>,
    pages: Arc<Semaphore>,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            news: watch::Sender::new(LiveUpdate::Nothing),
            pages: Arc::new(Semaphore::new(MAX_PAGES)),
        }
    }
}

impl Live {
    /// Looks for as long as the server runs.
    pub(crate) async fn run(app: Arc<App>) {
        // What is attempted from now on is counted.
        _ = app.watch.begin().await;
        let mut tick = tokio::time::interval(LOOK_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            if app.live.news.receiver_count() == 0 {
                continue;
            }
            // A store that does not answer is no change; pages that ask will be told.
            if let Ok(overview) = app.watch.newest().await {
                app.live.tell(LiveUpdate::Version(overview.version));
            }
        }
    }

    /// Lets every page go.
    pub(crate) fn close(&self) {
        self.tell(LiveUpdate::Over);
    }

    fn tell(&self, news: LiveUpdate) {
        self.news.send_if_modified(|told| {
            let is_new = *told != news && *told != LiveUpdate::Over;
            if is_new {
                *told = news;
            }
            is_new
        });
    }
}

/// What one page is told from.
struct Subscriber {
    news: watch::Receiver<LiveUpdate>,
    told: Option<u64>,
    _permit: OwnedSemaphorePermit,
}

impl Subscriber {
    /// Waits until there is something to tell.
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        loop {
            let news = *self.news.borrow_and_update();
            match news {
                LiveUpdate::Version(version) if self.told != Some(version) => {
                    self.told = Some(version);
                    let event = Event::default().event("changed").data(version.to_string());
                    return Some((Ok(event), self));
                }
                LiveUpdate::Over => return None,
                LiveUpdate::Nothing | LiveUpdate::Version(_) => self.news.changed().await.ok()?,
            }
        }
    }
}

/// The changes, as they happen.
pub(super) async fn events(app: AppState) -> Response {
    let Ok(permit) = Arc::clone(&app.live.pages).try_acquire_owned() else {
        let what = "too many pages are open; this one is not kept up to date";
        return ProblemDetails::new(StatusCode::SERVICE_UNAVAILABLE, what)
            .retry_after(60)
            .into_response();
    };
    let listener = Subscriber { news: app.live.news.subscribe(), told: None, _permit: permit };
    let events = stream::unfold(listener, Subscriber::next);
    Sse::new(events).keep_alive(KeepAlive::new().interval(SIGN_OF_LIFE_EVERY)).into_response()
}
