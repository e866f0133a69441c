//! The life of a pipeline run (PIP-5, PIP-6).

use std::fmt;

use crate::IllegalTransition;

/// The status of a pipeline run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PipelineStatus {
    /// There is work, or the source may have more.
    Running,
    /// Over, and enough succeeded.
    Completed,
    /// Over, and only part of it succeeded.
    PartialSuccess,
    /// Over, and too little succeeded.
    Failed,
    /// Stopped: too much failed, or the source cannot be read.
    Aborted,
    /// Stopped by an operator.
    Cancelled,
}

/// What can happen to a pipeline run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PipelineEvent {
    /// It is over, and enough succeeded.
    Complete,
    /// It is over, and part of it succeeded.
    SucceedInPart,
    /// It is over, and too little succeeded.
    Fail,
    /// Too much failed, or the source cannot be read.
    Abort,
    /// An operator stops it.
    Cancel,
    /// An operator has it go on.
    Resume,
    /// An operator brings dead letters back. What was stopped stays so until it is resumed.
    Reprocess,
}

impl PipelineStatus {
    /// All statuses.
    pub const ALL: [Self; 6] = [
        Self::Running,
        Self::Completed,
        Self::PartialSuccess,
        Self::Failed,
        Self::Aborted,
        Self::Cancelled,
    ];

    /// The status after an event, or why it cannot be.
    pub fn apply(self, event: PipelineEvent) -> Result<Self, IllegalTransition> {
        use PipelineEvent as E;
        match (self, event) {
            (Self::Running, E::Complete) => Ok(Self::Completed),
            (Self::Running, E::SucceedInPart) => Ok(Self::PartialSuccess),
            (Self::Running, E::Fail) => Ok(Self::Failed),
            (Self::Running, E::Abort) => Ok(Self::Aborted),
            (Self::Running | Self::Aborted, E::Cancel) => Ok(Self::Cancelled),
            (Self::Running | Self::Aborted | Self::Cancelled, E::Resume) => Ok(Self::Running),
            (stopped @ (Self::Aborted | Self::Cancelled), E::Reprocess) => Ok(stopped),
            (_, E::Reprocess) => Ok(Self::Running),
            (status, event) => Err(IllegalTransition {
                kind: "pipeline run",
                state: status.name(),
                event: event.name(),
            }),
        }
    }

    /// The name under which the status is stored.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::PartialSuccess => "partial_success",
            Self::Failed => "failed",
            Self::Aborted => "aborted",
            Self::Cancelled => "cancelled",
        }
    }

    /// The status of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

impl PipelineEvent {
    /// All events.
    pub const ALL: [Self; 7] = [
        Self::Complete,
        Self::SucceedInPart,
        Self::Fail,
        Self::Abort,
        Self::Cancel,
        Self::Resume,
        Self::Reprocess,
    ];

    /// Its name in messages and in the documentation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::SucceedInPart => "succeed in part",
            Self::Fail => "fail",
            Self::Abort => "abort",
            Self::Cancel => "cancel",
            Self::Resume => "resume",
            Self::Reprocess => "reprocess",
        }
    }
}

impl fmt::Display for PipelineStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
