//! What comes next for a failed partition: a retry at some time, or none (PAR-7, DMN-1).
//!
//! `state inspect`, `state retry` and the daemon ask here, so that what is shown is what is done. The
//! waits and the limits are [`decide`]'s; only the operators' mark is looked at before.

use std::{fmt, time::Duration};

use jiff::Timestamp;

use crate::{
    Cause, Decision, Failure, GiveUpReason, History, JitterKey, Policy, decide, is_marked_terminal,
};

/// What the judgement needs of a failed partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedPartition<'a> {
    /// Verdicts so far; the backoff number.
    pub attempt_count: u32,
    /// What is stored about the last one.
    pub error_message: Option<&'a str>,
    /// When it last changed; its wait counts from there.
    pub updated_at: Timestamp,
    /// When the first attempt began; its age counts from there.
    pub first_attempt_at: Option<Timestamp>,
}

/// What comes next for a failed partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryForecast {
    /// It is to be retried.
    RetryAt {
        /// When; it is due from then on.
        at: Timestamp,
        /// How long that is after its last change.
        delay: Duration,
    },
    /// It is terminal: consumers treat it as gone and nothing retries it by itself.
    Terminal {
        /// Why.
        reason: TerminalReason,
    },
}

/// Why a failed partition is terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TerminalReason {
    /// An operator marked it.
    Marked,
    /// The policy gives up.
    Policy(GiveUpReason),
}

impl TerminalReason {
    /// Its name in lists and in the journal.
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
    /// Judges a failed partition.
    ///
    /// Which failures are retried is the selection's business here, not the policy's: every failed
    /// partition is, until a limit or an operator says otherwise.
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
        let history = History {
            counted: failed.attempt_count.saturating_sub(1),
            deferrals: 0,
            first_attempt_at: failed.first_attempt_at,
        };
        let rejected = Failure::named("rejected", Cause::Validator, "");
        match decide(&policy.retrying_all(), &history, &rejected, now, jitter) {
            Decision::RetryAt { delay, .. } => {
                let at = failed.updated_at.checked_add(delay).unwrap_or(Timestamp::MAX);
                Self::RetryAt { at, delay }
            }
            Decision::GiveUp { reason } => {
                Self::Terminal { reason: TerminalReason::Policy(reason) }
            }
        }
    }

    /// Whether it is to be retried by now.
    pub fn is_due(self, now: Timestamp) -> bool {
        match self {
            Self::RetryAt { at, .. } => at <= now,
            Self::Terminal { .. } => false,
        }
    }
}
