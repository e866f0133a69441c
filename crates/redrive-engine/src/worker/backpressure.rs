//! Taking nothing for a while, where units could not be tried.

use std::time::Duration;

use tokio::time::Instant;

use redrive_retry::monotonic;

/// The first pause; each that follows is twice as long, up to [`LONGEST`], until something is done again.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

/// Whether a loop pauses, and for how long the next time.
pub(crate) struct Pause {
    until: Option<Instant>,
    next: Duration,
}

impl Default for Pause {
    fn default() -> Self {
        Self { until: None, next: FIRST }
    }
}

impl Pause {
    /// Begins one, unless one is on: many units that could not be tried are one reason to pause.
    pub(crate) fn begin(&mut self) {
        if self.until.is_none() {
            self.until = monotonic().checked_add(self.next);
            self.next = (self.next * 2).min(LONGEST);
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.until.is_some()
    }

    /// Waits for its end; for ever, if none is on.
    pub(crate) async fn over(&mut self) {
        match self.until {
            Some(time) => tokio::time::sleep_until(time).await,
            None => std::future::pending().await,
        }
        self.until = None;
    }

    /// Something was done: what kept units from being tried has passed.
    pub(crate) fn forget(&mut self) {
        self.next = FIRST;
    }
}
