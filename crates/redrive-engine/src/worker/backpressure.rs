//! Pauses claims while attempts cannot run, for example because the disk is full.

use std::time::Duration;

use redrive_retry::monotonic;
use tokio::time::Instant;

/// The first pause. Each further pause doubles, up to [`MAX_PAUSE`], until an attempt ends again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(30);

pub(crate) struct Backpressure {
    until: Option<Instant>,
    next_pause: Duration,
}

impl Default for Backpressure {
    fn default() -> Self {
        Self { until: None, next_pause: FIRST_PAUSE }
    }
}

impl Backpressure {
    /// Starts a pause. Does nothing during a pause: many units that could not run are one reason.
    pub(crate) fn start(&mut self) {
        if self.until.is_none() {
            self.until = monotonic().checked_add(self.next_pause);
            self.next_pause = (self.next_pause * 2).min(MAX_PAUSE);
        }
    }

    pub(crate) fn is_active(&self) -> bool {
        self.until.is_some()
    }

    /// Waits for the end of the pause; forever without one.
    pub(crate) async fn over(&mut self) {
        match self.until {
            Some(time) => tokio::time::sleep_until(time).await,
            None => std::future::pending().await,
        }
        self.until = None;
    }

    /// An attempt ran: the next pause starts small again.
    pub(crate) fn reset(&mut self) {
        self.next_pause = FIRST_PAUSE;
    }
}
