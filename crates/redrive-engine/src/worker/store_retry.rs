//! Retries writes to a store that does not answer. Results must not be lost to a restart of the database, so these retries
//! have no end; the callers drop them when they stop.

use std::time::Duration;

use crate::worker::lease_clock::lease_margin;

/// The first wait; each further wait doubles, up to [`MAX_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(50);
const MAX_WAIT: Duration = Duration::from_secs(5);

/// The waits between retries of one write.
pub(crate) struct StoreRetry<'a> {
    work: &'a str,
    what: &'a str,
    units: usize,
    wait: Duration,
    max_wait: Duration,
}

impl<'a> StoreRetry<'a> {
    /// `what` is written, for the log: `results`, for example.
    pub(crate) fn new(work: &'a str, what: &'a str, units: usize) -> Self {
        Self { work, what, units, wait: FIRST_WAIT, max_wait: MAX_WAIT }
    }

    /// Retries so often that a write comes before the reapers, which wait for half a lease after an outage.
    pub(crate) fn within(self, lease: Duration) -> Self {
        Self { max_wait: MAX_WAIT.min(lease_margin(lease)), ..self }
    }

    pub(crate) async fn wait_after(&mut self, error: &redrive_store::Error) {
        let Self { work, what, units, wait, max_wait } = *self;
        tracing::warn!(
            work,
            units,
            error = error as &dyn std::error::Error,
            "cannot write {what}; they are kept and written again"
        );
        tokio::time::sleep(wait).await;
        self.wait = (wait * 2).min(max_wait);
    }
}
