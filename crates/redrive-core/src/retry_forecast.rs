//! The forecast for a failed partition: a retry at a known time, or no retry (PAR-7, DMN-1).
//!
//! `state inspect`, `state retry` and the daemon use the same forecast, so the daemon does what
//! `state inspect` shows. [`decide`] gives the waits and limits; only the operator's `[terminal]`
//! mark is checked before.

use std::{fmt, time::Duration};

use jiff::Timestamp;

use crate::{
    Cause, Decision, Failure, GiveUpReason, History, JitterKey, LogicalDate, Policy, StoredFailure,
    decide, decide::is_too_old, is_marked_terminal,
};

/// The columns of a failed partition that the forecast needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedPartition<'a> {
    /// The number of verdicts, which is the backoff number.
    pub attempt_count: u32,
    pub error_message: Option<&'a str>,
    /// The wait counts from this time.
    pub updated_at: Timestamp,
    /// The age counts from this time.
    pub first_attempt_at: Option<Timestamp>,
    /// The logical age counts from this day.
    pub logical_date: LogicalDate,
    /// The wait that the server asked for.
    pub asked: Option<Duration>,
    /// The last failure, for the rules of the policy.
    pub failure: Option<StoredFailure<'a>>,
}

impl FailedPartition<'_> {
    /// The policy for its last failure.
    pub fn policy<'a>(&self, policy: &'a Policy) -> &'a Policy {
        self.failure.map_or(policy, |failure| policy.for_stored(failure).1)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryForecast {
    RetryAt {
        at: Timestamp,
        /// The time from `updated_at` to `at`.
        delay: Duration,
    },
    /// Consumers treat a terminal partition as missing, and the daemon does not retry it.
    Terminal { reason: TerminalReason },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TerminalReason {
    /// An operator marked the partition `[terminal]`.
    Marked,
    Policy(GiveUpReason),
}

impl TerminalReason {
    /// The name in lists and in the journal.
    pub fn name(self) -> &'static str {
        match self {
            Self::Marked => "marked",
            Self::Policy(reason) => reason.name(),
        }
    }
}

impl fmt::Display for TerminalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl RetryForecast {
    /// Forecasts the next retry of a failed partition.
    ///
    /// A wait that the server asked for makes the wait longer (POL-7). The failure counts all the same: every verdict does.
    /// The policy's `retriable` setting does not apply: every failed partition is retried until a
    /// limit or an operator stops the retries. The command or daemon that selects partitions may
    /// filter them.
    ///
    /// ```
    /// use std::time::Duration;
    /// use jiff::Timestamp;
    /// use redrive_core::{FailedPartition, JitterKey, JitterSeed, Preset, RetryForecast, Unit};
    ///
    /// let unit: Unit = "partition:ads/7/daily/2026-03-01".parse()?;
    /// let jitter = JitterKey::new(JitterSeed::default(), &unit);
    /// let failed = FailedPartition {
    ///     attempt_count: 3,
    ///     error_message: Some("no rows"),
    ///     updated_at: Timestamp::UNIX_EPOCH,
    ///     first_attempt_at: Some(Timestamp::UNIX_EPOCH),
    ///     logical_date: "2026-03-01".parse()?,
    ///     asked: None,
    ///     failure: None,
    /// };
    /// let policy = Preset::Partition.policy();
    /// let RetryForecast::RetryAt { delay, .. } =
    ///     RetryForecast::of(failed, &policy, Timestamp::UNIX_EPOCH, jitter)
    /// else { unreachable!() };
    /// let twenty_minutes = Duration::from_secs(1200);
    /// assert!(delay.abs_diff(twenty_minutes) <= Duration::from_secs(30));
    /// # Ok::<(), redrive_core::InvalidUnit>(())
    /// ```
    pub fn of(
        failed: FailedPartition<'_>,
        policy: &Policy,
        now: Timestamp,
        jitter: JitterKey,
    ) -> Self {
        if is_marked_terminal(failed.error_message) {
            return Self::Terminal { reason: TerminalReason::Marked };
        }
        let max_age = policy.spec().max_logical_age;
        if is_too_old(max_age, Some(failed.logical_date.start()), now) {
            return Self::Terminal { reason: TerminalReason::Policy(GiveUpReason::TooOld) };
        }
        let history = History {
            counted: failed.attempt_count.saturating_sub(1),
            first_attempt_at: failed.first_attempt_at,
            ..History::default()
        };
        let policy = failed.policy(policy);
        let rejected = Failure::named("rejected", Cause::Validator, "");
        match decide(&policy.retrying_all(), &history, &rejected, now, jitter) {
            Decision::RetryAt { delay: backoff, .. } => {
                let asked = failed.asked.unwrap_or_default().min(policy.spec().max_hint);
                let delay = backoff.max(asked);
                let at = failed.updated_at.checked_add(delay).unwrap_or(Timestamp::MAX);
                Self::RetryAt { at, delay }
            }
            Decision::GiveUp { reason } => {
                Self::Terminal { reason: TerminalReason::Policy(reason) }
            }
        }
    }

    pub fn is_due(self, now: Timestamp) -> bool {
        match self {
            Self::RetryAt { at, .. } => at <= now,
            Self::Terminal { .. } => false,
        }
    }
}
