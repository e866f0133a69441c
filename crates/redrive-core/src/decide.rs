//! The retry decision (POL-6).
//!
//! ```text
//! failure ─► does a rule match it?      ─ yes ► the settings of the rule (POL-10)
//!         ─► may it be retried at all?  ─ no ─► give up: final, not_retriable
//!         ─► are attempts left?         ─ no ─► give up: attempts_exhausted (lost workers have their own, max_lost; a probe
//!                                               that is not counted needs none)
//!         ─► is it young enough?        ─ no ─► give up: too_old
//!         ─► did the server say when?   ─ yes ► retry then, uncounted (up to max_deferrals in a row)
//!         ─► was it a gate's probe?     ─ yes ► retry after the backoff, uncounted (up to max_deferrals in a row)
//!         ─► was the worker lost?       ─ yes ► with max_lost: retry after the backoff, uncounted
//!         ─► otherwise                        ► retry after the backoff with jitter, counted
//! ```
//!
//! Workers, the lease reaper, the daemon, dry runs and `policy schedule` all call [`decide`]. No
//! SQL computes a delay or compares a count with a maximum.

use std::{fmt, time::Duration};

use jiff::Timestamp;

use crate::{Cause, Failure, JitterKey, Policy};

/// What happened to a unit before the current failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct History {
    /// Counted failures since the last reset.
    pub counted: u32,
    /// Consecutive waits for a server's hint or as the probe of a gate, immediately before the failure.
    pub deferrals: u32,
    /// Uncounted attempts that ended because the worker was lost, since the last reset. Needed only to decide about
    /// another one under a policy with `max_lost`.
    pub lost: u32,
    /// When the first attempt started; `None` if there was no earlier attempt.
    pub first_attempt_at: Option<Timestamp>,
    /// Time since then that does not count towards `max_age`, because a gate was closed.
    pub paused: Duration,
    /// Whether the unit was the probe of a gate: a failure that may be retried is about the service.
    pub is_probe: bool,
}

/// What a policy decides about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    RetryAt {
        at: Timestamp,
        /// The time from now until `at`.
        delay: Duration,
        /// Whether the failure counts against `max_attempts`.
        counted: bool,
    },
    GiveUp {
        reason: GiveUpReason,
    },
}

/// Why a unit is not tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GiveUpReason {
    Final,
    NotRetriable,
    AttemptsExhausted,
    TooOld,
}

impl GiveUpReason {
    pub fn name(self) -> &'static str {
        match self {
            Self::Final => "final",
            Self::NotRetriable => "not_retriable",
            Self::AttemptsExhausted => "attempts_exhausted",
            Self::TooOld => "too_old",
        }
    }
}

impl fmt::Display for GiveUpReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl History {
    /// The history after one more failure and the decision about it.
    pub fn after(self, failure: &Failure, decision: &Decision) -> Self {
        let counted = !matches!(decision, Decision::RetryAt { counted: false, .. });
        let deferred = self.is_probe || failure.class().hint().is_some();
        let lost = failure.cause() == Cause::LostWorker && !counted;
        Self {
            counted: self.counted.saturating_add(counted.into()),
            deferrals: if deferred { self.deferrals.saturating_add(1) } else { 0 },
            lost: self.lost.saturating_add(lost.into()),
            first_attempt_at: self.first_attempt_at,
            paused: self.paused,
            is_probe: false,
        }
    }
}

/// Decides what happens after a failure.
///
/// ```
/// use std::time::Duration;
/// use jiff::Timestamp;
/// use redrive_core::{
///     Decision, Failure, GiveUpReason, History, JitterKey, JitterSeed, Preset, RunId, Unit, decide,
/// };
///
/// let policy = Preset::Run.policy();
/// let jitter = JitterKey::new(JitterSeed::default(), &Unit::Run(RunId(7)));
/// let now = Timestamp::UNIX_EPOCH;
///
/// let busy = Failure::http(503, None, "busy");
/// let Decision::RetryAt { delay, counted, .. } =
///     decide(&policy, &History::default(), &busy, now, jitter)
/// else { unreachable!() };
/// assert_eq!((delay, counted), (Duration::from_secs(60), true));
///
/// let gone = Failure::http(410, None, "gone");
/// assert_eq!(
///     decide(&policy, &History::default(), &gone, now, jitter),
///     Decision::GiveUp { reason: GiveUpReason::Final },
/// );
/// ```
pub fn decide(
    policy: &Policy,
    history: &History,
    failure: &Failure,
    now: Timestamp,
    jitter: JitterKey,
) -> Decision {
    let policy = policy.for_failure(failure);
    let spec = policy.spec();
    if let Some(reason) = spec.retriable.refuses(failure) {
        return Decision::GiveUp { reason };
    }
    let max_lost = spec.max_lost.filter(|_| failure.cause() == Cause::LostWorker);
    let (n, max) = match max_lost {
        Some(max) => (history.lost.saturating_add(1), Some(max)),
        None => (history.counted.saturating_add(1), spec.max_attempts),
    };
    let is_deferral_counted = history.deferrals >= spec.max_deferrals;
    // What keeps a service from answering must not use up the last attempts of its probes, one unit after the other.
    let is_free_probe = history.is_probe && max_lost.is_none() && !is_deferral_counted;
    if !is_free_probe && max.is_some_and(|max| n >= max) {
        return Decision::GiveUp { reason: GiveUpReason::AttemptsExhausted };
    }
    let first = history.first_attempt_at.map(|first| saturating_add(first, history.paused));
    if is_too_old(spec.max_age, first, now) {
        return Decision::GiveUp { reason: GiveUpReason::TooOld };
    }
    let backoff = || spec.jitter.spread(policy.backoff_delay(n), jitter.draw(n));
    let (delay, counted) = match failure.class().hint() {
        Some(hint) => (hint.min(spec.max_hint), is_deferral_counted),
        None if history.is_probe => (backoff(), is_deferral_counted),
        None => (backoff(), max_lost.is_none()),
    };
    Decision::RetryAt { at: saturating_add(now, delay), delay, counted }
}

pub(crate) fn is_too_old(
    max_age: Option<Duration>,
    first: Option<Timestamp>,
    now: Timestamp,
) -> bool {
    let (Some(max_age), Some(first)) = (max_age, first) else {
        return false;
    };
    Duration::try_from(now.duration_since(first)).is_ok_and(|age| age >= max_age)
}

fn saturating_add(now: Timestamp, delay: Duration) -> Timestamp {
    now.checked_add(delay).unwrap_or(Timestamp::MAX)
}
