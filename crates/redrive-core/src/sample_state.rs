//! The life of a sample of a pipeline (PIP-3).
//!
//! A sample goes through the stages of its pipeline one after the other. The stored status `pending`
//! covers three states: ready for its stage, held by a worker, and waiting for a retry.

use std::fmt;

use crate::IllegalTransition;

/// The status of a sample as it is stored and shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SampleStatus {
    /// Not through yet.
    Pending,
    /// Through every stage.
    Succeeded,
    /// A stage passed it over.
    Skipped,
    /// In the dead-letter queue.
    Dlq,
}

/// The state of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SampleState {
    /// Ready for its stage.
    Ready,
    /// Held by a worker under a lease.
    Running,
    /// Waiting for its retry.
    WaitingForRetry,
    /// Through every stage.
    Succeeded,
    /// Passed over.
    Skipped,
    /// In the dead-letter queue.
    Dead,
}

/// What can happen to a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SampleEvent {
    /// A worker takes it.
    Claim,
    /// Its stage answered, and there is another.
    Advance,
    /// Its last stage answered.
    Complete,
    /// Its stage passed it over.
    Skip,
    /// Its stage failed and will try again.
    ScheduleRetry,
    /// Its stage failed for good.
    GiveUp,
    /// A worker gives it back without an attempt.
    LeaseRelease,
    /// An operator brings it back from the dead-letter queue.
    Reprocess,
}

impl SampleStatus {
    /// All statuses.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Succeeded, Self::Skipped, Self::Dlq];

    /// The name under which the status is stored.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Succeeded => "succeeded",
            Self::Skipped => "skipped",
            Self::Dlq => "dlq",
        }
    }

    /// The status of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

impl SampleState {
    /// All states.
    pub const ALL: [Self; 6] = [
        Self::Ready,
        Self::Running,
        Self::WaitingForRetry,
        Self::Succeeded,
        Self::Skipped,
        Self::Dead,
    ];

    /// The state, from the stored status, whether someone holds the sample, and whether it waits.
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

    /// The status under which the state is stored.
    pub fn status(self) -> SampleStatus {
        match self {
            Self::Ready | Self::Running | Self::WaitingForRetry => SampleStatus::Pending,
            Self::Succeeded => SampleStatus::Succeeded,
            Self::Skipped => SampleStatus::Skipped,
            Self::Dead => SampleStatus::Dlq,
        }
    }

    /// The state after an event, or why it cannot be.
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

    /// Its name in messages and in the documentation.
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
    /// All events.
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

    /// Its name in messages and in the documentation.
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
