//! The state machine of a partition (PAR-5, PAR-7 to PAR-9).
//!
//! Three statuses are stored, but the legal transitions depend on more. A partition without a row
//! counts as pending for readers, and no worker processes it. A failed partition that an operator
//! marked `[terminal]` is not retried until the mark is cleared. A successful partition that is
//! being reprocessed stays successful, and a rejected reprocess changes nothing. Claims, leases and
//! pauses are not states: they say who works on a partition, not what the partition is.

use std::fmt;

use crate::{IllegalTransition, is_marked_terminal};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PartitionStatus {
    /// Requested, without a verdict.
    Pending,
    /// The validator accepted a run of the partition.
    Success,
    /// The validator rejected the last attempt.
    Failed,
}

impl PartitionStatus {
    pub const ALL: [Self; 3] = [Self::Pending, Self::Success, Self::Failed];

    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Success => "success",
            Self::Failed => "failed",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

impl fmt::Display for PartitionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PartitionState {
    /// The partition has no row.
    Absent,
    Pending,
    /// The data of a run is current.
    Success,
    /// The data of a run is current, and another attempt was requested.
    Reprocessing,
    Failed,
    /// Failed, and marked `[terminal]` by an operator.
    Terminal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PartitionEvent {
    /// Request the partition if it has no row.
    Backfill,
    /// Request the partition if it has no row or its last attempt failed.
    ForcePending,
    Pass,
    /// The validator rejects a run, or there is no run to validate.
    Fail,
    Retry,
    /// An operator requests a new attempt at a successful partition.
    Reprocess,
    MarkTerminal,
    ClearTerminal,
}

impl PartitionState {
    pub const ALL: [Self; 6] = [
        Self::Absent,
        Self::Pending,
        Self::Success,
        Self::Reprocessing,
        Self::Failed,
        Self::Terminal,
    ];

    /// The next state, or an error if the state does not allow the event.
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

    /// The stored status; `None` for a partition without a row.
    pub fn status(self) -> Option<PartitionStatus> {
        match self {
            Self::Absent => None,
            Self::Pending => Some(PartitionStatus::Pending),
            Self::Success | Self::Reprocessing => Some(PartitionStatus::Success),
            Self::Failed | Self::Terminal => Some(PartitionStatus::Failed),
        }
    }

    pub fn of(status: PartitionStatus, error_message: Option<&str>, reprocess_asked: bool) -> Self {
        match status {
            PartitionStatus::Pending => Self::Pending,
            PartitionStatus::Success if reprocess_asked => Self::Reprocessing,
            PartitionStatus::Success => Self::Success,
            PartitionStatus::Failed if is_marked_terminal(error_message) => Self::Terminal,
            PartitionStatus::Failed => Self::Failed,
        }
    }

    /// The name in messages and in the documentation.
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

    /// The name in messages and in the documentation.
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
