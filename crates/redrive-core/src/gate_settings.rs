//! What a gate allows and when it closes, as declared in the configuration (GAT-1, GAT-2, GAT-5).

use std::time::Duration;

use crate::Rate;

/// The most attempts that a [`GateTrip`] looks at.
pub const MAX_TRIP_ATTEMPTS: u32 = 1_000;

/// Checked by [`GateSettings::new`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GateSettings {
    rate: Option<Rate>,
    concurrency: Option<u32>,
    trip: Option<GateTrip>,
    base: Duration,
    cap: Duration,
    pauses_max_age: bool,
}

/// Closes a gate when too many of the last attempts failed as retryable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GateTrip {
    /// The gate closes above this share.
    pub failures: f64,
    /// Of so many attempts, the last ones.
    pub of: u32,
    /// Older failures do not count.
    pub within: Duration,
}

/// Why settings of a gate are refused: the setting, and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {allowed}")]
pub struct InvalidGateSettings {
    pub field: &'static str,
    pub allowed: &'static str,
}

impl Default for GateSettings {
    /// No limits, no trip; closed for 10 seconds at first and 10 minutes at most, where no server says how long.
    fn default() -> Self {
        Self {
            rate: None,
            concurrency: None,
            trip: None,
            base: Duration::from_secs(10),
            cap: Duration::from_secs(600),
            pauses_max_age: false,
        }
    }
}

impl GateSettings {
    /// `60/m, 8 at once`; `None` without limits.
    pub fn limits_in_words(&self) -> Option<String> {
        let rate = self.rate.map(|rate| rate.to_string());
        let at_once = self.concurrency.map(|units| format!("{units} at once"));
        let limits: Vec<String> = rate.into_iter().chain(at_once).collect();
        (!limits.is_empty()).then(|| limits.join(", "))
    }

    pub fn new(
        rate: Option<Rate>,
        concurrency: Option<u32>,
        trip: Option<GateTrip>,
        base: Duration,
        cap: Duration,
    ) -> Result<Self, InvalidGateSettings> {
        let refused = |field, allowed| Err(InvalidGateSettings { field, allowed });
        if concurrency == Some(0) {
            return refused("concurrency", "1 or more; `gate close` lets no unit through");
        }
        if base.is_zero() {
            return refused("base", "more than 0");
        }
        if cap < base {
            return refused("cap", "at least the base");
        }
        if let Some(GateTrip { failures, of, within }) = trip {
            if !(failures > 0.0 && failures < 1.0) {
                return refused("trip.failures", "a share between 0 and 1, such as 0.5");
            }
            if !(1..=MAX_TRIP_ATTEMPTS).contains(&of) {
                return refused("trip.of", "1 to 1000 attempts");
            }
            if within.is_zero() {
                return refused("trip.within", "more than 0");
            }
        }
        Ok(Self { rate, concurrency, trip, base, cap, pauses_max_age: false })
    }

    pub fn with_paused_max_age(self, pauses_max_age: bool) -> Self {
        Self { pauses_max_age, ..self }
    }

    /// Whether the time that the gate is closed does not count towards `max_age` of the units behind it.
    pub fn pauses_max_age(&self) -> bool {
        self.pauses_max_age
    }

    /// Units that may start in a period, over all hosts.
    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Units that may run at once, over all hosts.
    pub fn concurrency(&self) -> Option<u32> {
        self.concurrency
    }

    pub fn trip(&self) -> Option<GateTrip> {
        self.trip
    }

    /// Whether every claim has to know the state of its keys, also of open ones.
    pub fn limits_open_keys(&self) -> bool {
        self.rate.is_some() || self.concurrency.is_some()
    }

    /// The longest period where no server says how long.
    pub fn cap(&self) -> Duration {
        self.cap
    }

    /// How long the n-th closing in a row lasts: the base, doubled each time, up to the cap.
    pub fn period(&self, closings: u32) -> Duration {
        let doubled = 1_u32.checked_shl(closings.saturating_sub(1)).unwrap_or(u32::MAX);
        self.base.saturating_mul(doubled).min(self.cap)
    }
}
