//! A clock for leases that does not jump.
//!
//! Workers on many hosts must agree on when a lease ends, and their wall clocks do not. So the server
//! tells the time: its clock is read now and then and carried on by this machine's monotonic clock,
//! which nobody sets. What a worker reads lies within a round trip of what the server would say.
//!
//! The clock never goes back. When the server's clock is set back, this one goes on at half speed
//! until the two meet: leases still end, only later. When the server is ahead, this clock follows at
//! once: perhaps this machine slept, and its leases have ended. Perhaps somebody set the server's clock forward
//! instead; so a renewal reads it too, and nobody takes others for lost by a clock that has just jumped.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};

/// Tells the time of leases. Tests inject one.
pub type LeaseClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Tells the time since some moment in the past, and is never set. Tests inject one.
pub type Monotonic = Arc<dyn Fn() -> Duration + Send + Sync>;

/// How long the server's clock is carried on before it is read again.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(10);

/// The longest round trip after which an answer still says what time it is.
const MAX_ROUND_TRIP: Duration = Duration::from_secs(1);

/// What the server said, and when it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The server's clock.
    pub server: Timestamp,
    /// The monotonic clock when the question was sent.
    pub asked: Duration,
    /// The monotonic clock when the answer came.
    pub answered: Duration,
}

/// The server's clock, carried on by this machine.
pub struct ServerClock {
    monotonic: Monotonic,
    state: Mutex<State>,
}

#[derive(Clone, Copy)]
struct State {
    /// What the server's clock was at a moment of the monotonic one.
    server: Timestamp,
    server_at: Duration,
    /// What was last told, and when.
    told: Timestamp,
    told_at: Duration,
    /// When the server is asked again.
    sample_at: Duration,
}

/// The machine's monotonic clock.
pub(crate) fn machine_clock() -> Monotonic {
    let start = Instant::now();
    Arc::new(move || start.elapsed())
}

impl ServerClock {
    /// A clock that begins with a first sample, however slow its round trip was.
    pub fn new(monotonic: Monotonic, first: Sample) -> Self {
        let (server, server_at) = first.middle();
        let state = State {
            server,
            server_at,
            told: server,
            told_at: server_at,
            sample_at: first.answered.saturating_add(SAMPLE_INTERVAL),
        };
        Self { monotonic, state: Mutex::new(state) }
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        let mut state = self.state();
        let here = (self.monotonic)();
        let server = add(state.server, here.saturating_sub(state.server_at));
        let slowest = add(state.told, here.saturating_sub(state.told_at) / 2);
        state.told = server.max(slowest);
        state.told_at = here.max(state.told_at);
        state.told
    }

    /// Whether it is time to ask the server again. Says so once per interval.
    pub fn wants_sample(&self) -> bool {
        let mut state = self.state();
        let here = (self.monotonic)();
        let wants = here >= state.sample_at;
        if wants {
            state.sample_at = here.saturating_add(SAMPLE_INTERVAL);
        }
        wants
    }

    /// Goes on from a new sample, unless its round trip was too long to mean anything.
    pub fn correct(&self, sample: Sample) {
        if sample.answered.saturating_sub(sample.asked) <= MAX_ROUND_TRIP {
            // What was told so far stands: the new pace begins here.
            self.now();
            let mut state = self.state();
            (state.server, state.server_at) = sample.middle();
        }
    }

    /// The monotonic clock, for the times of a sample.
    pub(crate) fn monotonic(&self) -> Duration {
        (self.monotonic)()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is complete in itself, so a panic elsewhere leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sample {
    /// The server read its clock somewhere between question and answer.
    fn middle(&self) -> (Timestamp, Duration) {
        let round_trip = self.answered.saturating_sub(self.asked);
        (self.server, self.asked.saturating_add(round_trip / 2))
    }
}

fn add(at: Timestamp, duration: Duration) -> Timestamp {
    SignedDuration::try_from(duration)
        .ok()
        .and_then(|duration| at.checked_add(duration).ok())
        .unwrap_or(Timestamp::MAX)
}
