//! The state machine of a plan (PLN-1, PLN-2, PLN-4).

use std::fmt;

use crate::IllegalTransition;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PlanStatus {
    /// Nothing has been changed.
    Draft,
    Running,
    Paused,
    /// Every unit was changed or skipped.
    Done,
    /// Stopped by its abort condition or by an operator. The rest of the units is unchanged.
    Aborted,
    /// Units that no worker had started are as they were before the plan.
    Undone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PlanEvent {
    Apply,
    Pause,
    Resume,
    /// The last unit was changed or skipped.
    Complete,
    Abort,
    Undo,
}

impl PlanStatus {
    pub const ALL: [Self; 6] =
        [Self::Draft, Self::Running, Self::Paused, Self::Done, Self::Aborted, Self::Undone];

    /// The next status, or an error if the status does not allow the event.
    pub fn apply(self, event: PlanEvent) -> Result<Self, IllegalTransition> {
        use PlanEvent as E;
        match (self, event) {
            (Self::Draft, E::Apply) => Ok(Self::Running),
            (Self::Running, E::Pause) => Ok(Self::Paused),
            (Self::Paused, E::Resume) => Ok(Self::Running),
            (Self::Running, E::Complete) => Ok(Self::Done),
            (Self::Draft | Self::Running | Self::Paused, E::Abort) => Ok(Self::Aborted),
            (Self::Running | Self::Paused | Self::Done | Self::Aborted, E::Undo) => {
                Ok(Self::Undone)
            }
            (status, event) => {
                Err(IllegalTransition { kind: "plan", state: status.name(), event: event.name() })
            }
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Done => "done",
            Self::Aborted => "aborted",
            Self::Undone => "undone",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

impl PlanEvent {
    pub const ALL: [Self; 6] =
        [Self::Apply, Self::Pause, Self::Resume, Self::Complete, Self::Abort, Self::Undo];

    /// The name in messages and in the documentation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Apply => "apply",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Complete => "complete",
            Self::Abort => "abort",
            Self::Undo => "undo",
        }
    }
}

impl fmt::Display for PlanStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
