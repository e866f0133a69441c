//! The life of a partition (PAR-5, PAR-7 to PAR-9).
//!
//! Three statuses are stored; what may come next needs more. A partition without a row counts as
//! pending for readers but nothing works on it. A failed one that an operator marked `[terminal]` is not
//! retried until the mark is cleared. A successful one that is being reprocessed stays successful, and a
//! bad verdict on the reprocess changes nothing. Claims, leases and pauses are not states: they say who
//! works on a partition, not what it is.

use std::fmt;

use crate::{IllegalTransition, is_marked_terminal};

/// The status of a partition as it is stored and shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PartitionStatus {
    /// Asked for, not judged yet.
    Pending,
    /// The validator accepted a run of it.
    Success,
    /// The validator rejected the last attempt.
    Failed,
}

impl PartitionStatus {
    /// All statuses, in the order of life.
    pub const ALL: [Self; 3] = [Self::Pending, Self::Success, Self::Failed];

    /// The name under which the status is stored.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Success => "success",
            Self::Failed => "failed",
        }
    }

    /// The status of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

impl fmt::Display for PartitionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The state of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PartitionState {
    /// It has no row.
    Absent,
    /// It waits for its verdict.
    Pending,
    /// A run of it has authority.
    Success,
    /// A run of it has authority, and another attempt was asked for.
    Reprocessing,
    /// Its last attempt was rejected.
    Failed,
    /// The same, and an operator marked it `[terminal]`.
    Terminal,
}

/// What can happen to a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PartitionEvent {
    /// It is asked for, unless it is there.
    Backfill,
    /// It is asked for, also if its last attempt failed.
    ForcePending,
    /// The validator accepts a run.
    Pass,
    /// The validator rejects a run, or finds none.
    Fail,
    /// The control plane asks for another try.
    Retry,
    /// An operator asks to do a good one again.
    Reprocess,
    /// An operator ends its retrying.
    MarkTerminal,
    /// An operator allows it again.
    ClearTerminal,
}

impl PartitionState {
    /// All states, in the order of life.
    pub const ALL: [Self; 6] = [
        Self::Absent,
        Self::Pending,
        Self::Success,
        Self::Reprocessing,
        Self::Failed,
        Self::Terminal,
    ];

    /// The state after an event, or why it cannot be.
    ///
    /// ```
    /// use redrive_core::{PartitionEvent, PartitionState};
    ///
    /// let again = PartitionState::Success.apply(PartitionEvent::Reprocess)?;
    /// assert_eq!(again.apply(PartitionEvent::Fail)?, PartitionState::Success);
    /// assert!(PartitionState::Success.apply(PartitionEvent::ForcePending).is_err());
    /// # Ok::<(), redrive_core::IllegalTransition>(())
    /// ```
    pub fn apply(self, event: PartitionEvent) -> Result<Self, IllegalTransition> {
        use PartitionEvent as E;
        match (self, event) {
            (Self::Absent, E::Backfill | E::ForcePending) => Ok(Self::Pending),
            (Self::Failed, E::ForcePending | E::Retry) => Ok(Self::Pending),

            (Self::Pending | Self::Reprocessing, E::Pass) => Ok(Self::Success),
            (Self::Pending | Self::Failed, E::Fail) => Ok(Self::Failed),
            (Self::Terminal, E::Fail) => Ok(Self::Terminal),
            (Self::Reprocessing, E::Fail) => Ok(Self::Success),

            (Self::Success, E::Reprocess) => Ok(Self::Reprocessing),
            (Self::Failed, E::MarkTerminal) => Ok(Self::Terminal),
            (Self::Terminal, E::ClearTerminal) => Ok(Self::Failed),

            (state, event) => {
                let kind = "partition";
                Err(IllegalTransition { kind, state: state.name(), event: event.name() })
            }
        }
    }

    /// The status under which the state is stored; none without a row.
    pub fn status(self) -> Option<PartitionStatus> {
        match self {
            Self::Absent => None,
            Self::Pending => Some(PartitionStatus::Pending),
            Self::Success | Self::Reprocessing => Some(PartitionStatus::Success),
            Self::Failed | Self::Terminal => Some(PartitionStatus::Failed),
        }
    }

    /// The state of a stored partition.
    pub fn of(status: PartitionStatus, error_message: Option<&str>, reprocess_asked: bool) -> Self {
        match status {
            PartitionStatus::Pending => Self::Pending,
            PartitionStatus::Success if reprocess_asked => Self::Reprocessing,
            PartitionStatus::Success => Self::Success,
            PartitionStatus::Failed if is_marked_terminal(error_message) => Self::Terminal,
            PartitionStatus::Failed => Self::Failed,
        }
    }

    /// Its name in messages and in the documentation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Absent => "no entry",
            Self::Pending => "pending",
            Self::Success => "success",
            Self::Reprocessing => "success, being reprocessed",
            Self::Failed => "failed",
            Self::Terminal => "failed, marked terminal",
        }
    }
}

impl PartitionEvent {
    /// All events, in the order of life.
    pub const ALL: [Self; 8] = [
        Self::Backfill,
        Self::ForcePending,
        Self::Pass,
        Self::Fail,
        Self::Retry,
        Self::Reprocess,
        Self::MarkTerminal,
        Self::ClearTerminal,
    ];

    /// Its name in messages and in the documentation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Backfill => "backfill",
            Self::ForcePending => "force pending",
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Retry => "retry",
            Self::Reprocess => "reprocess",
            Self::MarkTerminal => "mark terminal",
            Self::ClearTerminal => "clear terminal",
        }
    }
}
