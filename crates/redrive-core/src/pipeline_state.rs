//! The state machine of a pipeline run (PIP-5, PIP-6).

use std::fmt;

use crate::IllegalTransition;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PipelineStatus {
    /// Samples are pending, or the source may have more.
    Running,
    Completed,
    PartialSuccess,
    Failed,
    /// Stopped: the failure budget was exceeded, or the source cannot be read.
    Aborted,
    Cancelled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PipelineEvent {
    Complete,
    SucceedInPart,
    Fail,
    /// The failure budget was exceeded, or the source cannot be read.
    Abort,
    Cancel,
    Resume,
    /// An operator takes dead letters back. A stopped run stays stopped until it is resumed.
    Reprocess,
}

impl PipelineStatus {
    pub const ALL: [Self; 6] = [
        Self::Running,
        Self::Completed,
        Self::PartialSuccess,
        Self::Failed,
        Self::Aborted,
        Self::Cancelled,
    ];

    /// The next status, or an error if the status does not allow the event.
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

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

impl PipelineEvent {
    pub const ALL: [Self; 7] = [
        Self::Complete,
        Self::SucceedInPart,
        Self::Fail,
        Self::Abort,
        Self::Cancel,
        Self::Resume,
        Self::Reprocess,
    ];

    /// The name in messages and in the documentation.
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
