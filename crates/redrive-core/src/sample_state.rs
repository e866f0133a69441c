//! The state machine of a sample (PIP-3).
//!
//! A sample passes the stages of its pipeline in order. The stored status `pending` covers three
//! states: ready for its stage, held by a worker, and waiting for a retry.

use std::fmt;

use crate::IllegalTransition;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SampleStatus {
    Pending,
    /// The last stage answered.
    Succeeded,
    Skipped,
    Dlq,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SampleState {
    Ready,
    Running,
    WaitingForRetry,
    Succeeded,
    Skipped,
    Dead,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SampleEvent {
    Claim,
    /// The stage answered, and another stage follows.
    Advance,
    /// The last stage answered.
    Complete,
    Skip,
    ScheduleRetry,
    GiveUp,
    /// A worker releases the sample without an attempt.
    LeaseRelease,
    Reprocess,
}

impl SampleStatus {
    pub const ALL: [Self; 4] = [Self::Pending, Self::Succeeded, Self::Skipped, Self::Dlq];

    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Succeeded => "succeeded",
            Self::Skipped => "skipped",
            Self::Dlq => "dlq",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

impl SampleState {
    pub const ALL: [Self; 6] = [
        Self::Ready,
        Self::Running,
        Self::WaitingForRetry,
        Self::Succeeded,
        Self::Skipped,
        Self::Dead,
    ];

    /// `held`: a worker has a lease on the sample. `waits`: the sample has a `next_retry_at`.
    pub fn of(status: SampleStatus, held: bool, waits: bool) -> Self {
        match status {
            SampleStatus::Pending if held => Self::Running,
            SampleStatus::Pending if waits => Self::WaitingForRetry,
            SampleStatus::Pending => Self::Ready,
            SampleStatus::Succeeded => Self::Succeeded,
            SampleStatus::Skipped => Self::Skipped,
            SampleStatus::Dlq => Self::Dead,
        }
    }

    pub fn status(self) -> SampleStatus {
        match self {
            Self::Ready | Self::Running | Self::WaitingForRetry => SampleStatus::Pending,
            Self::Succeeded => SampleStatus::Succeeded,
            Self::Skipped => SampleStatus::Skipped,
            Self::Dead => SampleStatus::Dlq,
        }
    }

    /// The next state, or an error if the state does not allow the event.
    ///
    /// ```
    /// use redrive_core::{SampleEvent, SampleState};
    ///
    /// assert_eq!(SampleState::Running.apply(SampleEvent::Advance)?, SampleState::Ready);
    /// assert!(SampleState::Succeeded.apply(SampleEvent::Reprocess).is_err());
    /// # Ok::<(), redrive_core::IllegalTransition>(())
    /// ```
    pub fn apply(self, event: SampleEvent) -> Result<Self, IllegalTransition> {
        use SampleEvent as E;
        match (self, event) {
            (Self::Ready | Self::WaitingForRetry, E::Claim) => Ok(Self::Running),
            (Self::Running, E::Advance | E::LeaseRelease) => Ok(Self::Ready),
            (Self::Running, E::Complete) => Ok(Self::Succeeded),
            (Self::Running, E::Skip) => Ok(Self::Skipped),
            (Self::Running, E::ScheduleRetry) => Ok(Self::WaitingForRetry),
            (Self::Running, E::GiveUp) => Ok(Self::Dead),
            (Self::Dead, E::Reprocess) => Ok(Self::Ready),
            (state, event) => {
                Err(IllegalTransition { kind: "sample", state: state.name(), event: event.name() })
            }
        }
    }

    /// The name in messages and in the documentation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Running => "running",
            Self::WaitingForRetry => "waiting for a retry",
            Self::Succeeded => "succeeded",
            Self::Skipped => "skipped",
            Self::Dead => "dead",
        }
    }
}

impl SampleEvent {
    pub const ALL: [Self; 8] = [
        Self::Claim,
        Self::Advance,
        Self::Complete,
        Self::Skip,
        Self::ScheduleRetry,
        Self::GiveUp,
        Self::LeaseRelease,
        Self::Reprocess,
    ];

    /// The name in messages and in the documentation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Advance => "advance",
            Self::Complete => "complete",
            Self::Skip => "skip",
            Self::ScheduleRetry => "schedule retry",
            Self::GiveUp => "give up",
            Self::LeaseRelease => "release",
            Self::Reprocess => "reprocess",
        }
    }
}

impl fmt::Display for SampleStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
