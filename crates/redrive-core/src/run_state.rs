//! The life of a run (RUN-1, RUN-3).
//!
//! The stored status `error` covers two states that differ in what comes next: a run that waits for
//! its retry, and one that was given up. `next_retry_at` tells them apart.

use std::fmt;

use crate::IllegalTransition;

/// The status of a run as it is stored and shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RunStatus {
    /// Submitted, or sent back to the queue.
    Discovered,
    /// Claimed by a worker.
    Processing,
    /// The handler judged it good.
    Passed,
    /// The handler wants a person to look.
    NeedsReview,
    /// The handler judged it bad. A verdict, not an error.
    Failed,
    /// The last attempt ended in an error.
    Error,
    /// An operator stopped it.
    Cancelled,
}

impl RunStatus {
    /// All statuses, in the order of life.
    pub const ALL: [Self; 7] = [
        Self::Discovered,
        Self::Processing,
        Self::Passed,
        Self::NeedsReview,
        Self::Failed,
        Self::Error,
        Self::Cancelled,
    ];

    /// The name under which the status is stored.
    pub fn name(self) -> &'static str {
        match self {
            Self::Discovered => "discovered",
            Self::Processing => "processing",
            Self::Passed => "passed",
            Self::NeedsReview => "needs_review",
            Self::Failed => "failed",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }

    /// The status of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunState {
    /// Ready for a worker, or waiting for its `not_before`.
    Discovered,
    /// Held by a worker under a lease.
    Processing,
    /// Status `error` with a `next_retry_at`.
    WaitingForRetry,
    /// Status `error` without one.
    GivenUp,
    /// Ended well.
    Passed,
    /// Ended, a person should look.
    NeedsReview,
    /// Ended with a bad verdict.
    Failed,
    /// Stopped by an operator.
    Cancelled,
}

/// What can happen to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunEvent {
    /// A worker takes it.
    Claim,
    /// The handler's verdict is `passed`.
    Pass,
    /// The handler's verdict is `needs_review`.
    AskForReview,
    /// The handler's verdict is `failed`.
    Fail,
    /// The attempt failed and will be tried again.
    ScheduleRetry,
    /// The attempt failed and will not be tried again.
    GiveUp,
    /// A worker that stops returns it untried.
    LeaseRelease,
    /// An operator asks for another try.
    Retry,
    /// An operator stops it.
    Cancel,
}

impl RunState {
    /// All states, in the order of life.
    pub const ALL: [Self; 8] = [
        Self::Discovered,
        Self::Processing,
        Self::WaitingForRetry,
        Self::GivenUp,
        Self::Passed,
        Self::NeedsReview,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The state after an event, or why it cannot be.
    ///
    /// ```
    /// use redrive_core::{RunEvent, RunState};
    ///
    /// let claimed = RunState::Discovered.apply(RunEvent::Claim)?;
    /// assert_eq!(claimed.apply(RunEvent::ScheduleRetry)?, RunState::WaitingForRetry);
    /// assert!(RunState::Passed.apply(RunEvent::GiveUp).is_err(), "success is not taken back");
    /// # Ok::<(), redrive_core::IllegalTransition>(())
    /// ```
    pub fn apply(self, event: RunEvent) -> Result<Self, IllegalTransition> {
        use RunEvent as E;
        match (self, event) {
            (Self::Discovered | Self::WaitingForRetry, E::Claim) => Ok(Self::Processing),

            (Self::Processing, E::Pass) => Ok(Self::Passed),
            (Self::Processing, E::AskForReview) => Ok(Self::NeedsReview),
            (Self::Processing, E::Fail) => Ok(Self::Failed),
            (Self::Processing, E::ScheduleRetry) => Ok(Self::WaitingForRetry),
            (Self::Processing, E::GiveUp) => Ok(Self::GivenUp),
            (Self::Processing, E::LeaseRelease) => Ok(Self::Discovered),

            (
                Self::WaitingForRetry
                | Self::GivenUp
                | Self::NeedsReview
                | Self::Failed
                | Self::Cancelled,
                E::Retry,
            ) => Ok(Self::Discovered),

            (
                Self::Discovered | Self::Processing | Self::WaitingForRetry | Self::GivenUp,
                E::Cancel,
            ) => Ok(Self::Cancelled),

            (state, event) => {
                Err(IllegalTransition { kind: "run", state: state.name(), event: event.name() })
            }
        }
    }

    /// The status under which the state is stored.
    pub fn status(self) -> RunStatus {
        match self {
            Self::Discovered => RunStatus::Discovered,
            Self::Processing => RunStatus::Processing,
            Self::WaitingForRetry | Self::GivenUp => RunStatus::Error,
            Self::Passed => RunStatus::Passed,
            Self::NeedsReview => RunStatus::NeedsReview,
            Self::Failed => RunStatus::Failed,
            Self::Cancelled => RunStatus::Cancelled,
        }
    }

    /// The state of a stored run.
    pub fn of(status: RunStatus, has_next_retry: bool) -> Self {
        match status {
            RunStatus::Discovered => Self::Discovered,
            RunStatus::Processing => Self::Processing,
            RunStatus::Passed => Self::Passed,
            RunStatus::NeedsReview => Self::NeedsReview,
            RunStatus::Failed => Self::Failed,
            RunStatus::Error if has_next_retry => Self::WaitingForRetry,
            RunStatus::Error => Self::GivenUp,
            RunStatus::Cancelled => Self::Cancelled,
        }
    }

    /// Its name in messages and in the documentation.
    pub fn name(self) -> &'static str {
        match self {
            Self::WaitingForRetry => "error, waiting for a retry",
            Self::GivenUp => "error, given up",
            state => state.status().name(),
        }
    }
}

impl RunEvent {
    /// All events, in the order of life.
    pub const ALL: [Self; 9] = [
        Self::Claim,
        Self::Pass,
        Self::AskForReview,
        Self::Fail,
        Self::ScheduleRetry,
        Self::GiveUp,
        Self::LeaseRelease,
        Self::Retry,
        Self::Cancel,
    ];

    /// Its name in messages and in the documentation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Pass => "pass",
            Self::AskForReview => "ask for review",
            Self::Fail => "fail",
            Self::ScheduleRetry => "schedule retry",
            Self::GiveUp => "give up",
            Self::LeaseRelease => "release",
            Self::Retry => "retry",
            Self::Cancel => "cancel",
        }
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
