//! The state machine of a run (RUN-1, RUN-3).
//!
//! The stored status `error` covers two states: a run that waits for its retry and a run that was
//! given up. `next_retry_at` tells them apart.

use std::fmt;

use crate::IllegalTransition;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RunStatus {
    /// Submitted, released or retried by an operator.
    Discovered,
    Processing,
    Passed,
    /// The handler asks for a review by a person.
    NeedsReview,
    /// The handler's verdict is `failed`. A verdict is not an error and is not retried.
    Failed,
    Error,
    Cancelled,
}

impl RunStatus {
    pub const ALL: [Self; 7] = [
        Self::Discovered,
        Self::Processing,
        Self::Passed,
        Self::NeedsReview,
        Self::Failed,
        Self::Error,
        Self::Cancelled,
    ];

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

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunState {
    /// Ready for a worker, or waiting for `not_before`.
    Discovered,
    Processing,
    /// Status `error` with a `next_retry_at`.
    WaitingForRetry,
    /// Status `error` without a `next_retry_at`.
    GivenUp,
    Passed,
    NeedsReview,
    Failed,
    Cancelled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunEvent {
    Claim,
    Pass,
    AskForReview,
    Fail,
    ScheduleRetry,
    GiveUp,
    /// A worker that stops releases the run without an attempt.
    LeaseRelease,
    Retry,
    Cancel,
}

impl RunState {
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

    /// The next state, or an error if the state does not allow the event.
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

    /// The name in messages and in the documentation.
    pub fn name(self) -> &'static str {
        match self {
            Self::WaitingForRetry => "error, waiting for a retry",
            Self::GivenUp => "error, given up",
            state => state.status().name(),
        }
    }
}

impl RunEvent {
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

    /// The name in messages and in the documentation.
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
