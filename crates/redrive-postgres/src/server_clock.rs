//! The clock of leases: the server's, without backward jumps.
//!
//! Workers on many hosts must agree on when a lease ends, and their wall clocks differ. So the server's clock is
//! sampled now and then and extrapolated by this machine's monotonic clock. The result differs from the server's
//! clock by at most a round trip.
//!
//! The clock never goes back. If the server's clock is set back, this clock runs at half speed until the two
//! meet: leases still end, only later. If the server is ahead, this clock follows at once, because this machine
//! may have slept and its leases may have ended. The server's clock may also have been set forward; so renewals
//! sample it too, and the reaper takes no worker for lost right after a jump.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};

/// Replaces the server's clock in tests.
pub type PostgresLeaseClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The time since some moment in the past. Tests inject one.
pub type MonotonicClock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// The time between two samples of the server's clock.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(10);

/// Samples with a longer round trip are too imprecise.
const MAX_ROUND_TRIP: Duration = Duration::from_secs(1);

/// A reading of the server's clock, with the round trip that it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockSample {
    pub server: Timestamp,
    /// On the monotonic clock, as is `answered_at`.
    pub sent_at: Duration,
    pub answered_at: Duration,
}

/// The server's clock, extrapolated by this machine's monotonic clock.
pub struct ServerClock {
    monotonic: MonotonicClock,
    state: Mutex<ClockState>,
}

#[derive(Clone, Copy)]
struct ClockState {
    /// The server's clock at a moment of the monotonic clock.
    server: Timestamp,
    server_at: Duration,
    /// The last result of [`ServerClock::now`], and when it was returned.
    last_returned: Timestamp,
    last_returned_at: Duration,
    next_sample_at: Duration,
}

pub(crate) fn machine_clock() -> MonotonicClock {
    let start = Instant::now();
    Arc::new(move || start.elapsed())
}

impl ServerClock {
    /// Accepts the first sample however long its round trip took.
    pub fn new(monotonic: MonotonicClock, first: ClockSample) -> Self {
        let (server, server_at) = first.middle();
        let state = ClockState {
            server,
            server_at,
            last_returned: server,
            last_returned_at: server_at,
            next_sample_at: first.answered_at.saturating_add(SAMPLE_INTERVAL),
        };
        Self { monotonic, state: Mutex::new(state) }
    }

    pub fn now(&self) -> Timestamp {
        let mut state = self.state();
        let here = (self.monotonic)();
        let server = add(state.server, here.saturating_sub(state.server_at));
        let slowest = add(state.last_returned, here.saturating_sub(state.last_returned_at) / 2);
        state.last_returned = server.max(slowest);
        state.last_returned_at = here.max(state.last_returned_at);
        state.last_returned
    }

    /// Whether to sample the server's clock now. True once per interval.
    pub fn sample_is_due(&self) -> bool {
        let mut state = self.state();
        let here = (self.monotonic)();
        let due = here >= state.next_sample_at;
        if due {
            state.next_sample_at = here.saturating_add(SAMPLE_INTERVAL);
        }
        due
    }

    /// Continues from a new sample, unless its round trip took too long.
    pub fn correct(&self, sample: ClockSample) {
        if sample.answered_at.saturating_sub(sample.sent_at) <= MAX_ROUND_TRIP {
            // Times that were returned stand: the new pace starts here.
            self.now();
            let mut state = self.state();
            (state.server, state.server_at) = sample.middle();
        }
    }

    pub(crate) fn monotonic(&self) -> Duration {
        (self.monotonic)()
    }

    fn state(&self) -> MutexGuard<'_, ClockState> {
        // Every change is complete in itself, so a panic elsewhere leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClockSample {
    /// The server read its clock somewhere within the round trip.
    fn middle(&self) -> (Timestamp, Duration) {
        let round_trip = self.answered_at.saturating_sub(self.sent_at);
        (self.server, self.sent_at.saturating_add(round_trip / 2))
    }
}

fn add(at: Timestamp, duration: Duration) -> Timestamp {
    SignedDuration::try_from(duration)
        .ok()
        .and_then(|duration| at.checked_add(duration).ok())
        .unwrap_or(Timestamp::MAX)
}
