//! The state machine of a gate (GAT-2, GAT-4).

use std::fmt;

use crate::IllegalTransition;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GateStatus {
    Open,
    /// No unit is started, until a time or until an operator opens the gate.
    Closed,
    /// One unit finds out whether the service answers.
    Probing,
    /// The service answered. More and more units are started at once.
    Ramping,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GateEvent {
    /// The service refused a unit, or failed a probe.
    Refuse,
    /// Too many attempts failed.
    Trip,
    /// By command.
    Close,
    /// By command.
    Open,
    /// The period is over, and a unit is started.
    Probe,
    /// A step has succeeded, and a larger one follows.
    Widen,
    /// A step as large as what ran before has succeeded.
    Complete,
}

impl GateStatus {
    pub const ALL: [Self; 4] = [Self::Open, Self::Closed, Self::Probing, Self::Ramping];

    /// The next status, or an error if the status does not allow the event.
    pub fn apply(self, event: GateEvent) -> Result<Self, IllegalTransition> {
        use GateEvent as E;
        match (self, event) {
            (_, E::Refuse | E::Close) => Ok(Self::Closed),
            (Self::Open | Self::Ramping, E::Trip) => Ok(Self::Closed),
            (Self::Closed | Self::Probing | Self::Ramping, E::Open) => Ok(Self::Open),
            (Self::Closed, E::Probe) => Ok(Self::Probing),
            (Self::Probing | Self::Ramping, E::Widen) => Ok(Self::Ramping),
            (Self::Probing | Self::Ramping, E::Complete) => Ok(Self::Open),
            (status, event) => {
                Err(IllegalTransition { kind: "gate", state: status.name(), event: event.name() })
            }
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Probing => "probing",
            Self::Ramping => "ramping",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

impl GateEvent {
    pub const ALL: [Self; 7] = [
        Self::Refuse,
        Self::Trip,
        Self::Close,
        Self::Open,
        Self::Probe,
        Self::Widen,
        Self::Complete,
    ];

    /// The name in messages and in the documentation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Trip => "trip",
            Self::Close => "close",
            Self::Open => "open",
            Self::Probe => "probe",
            Self::Widen => "widen",
            Self::Complete => "complete",
        }
    }
}

impl fmt::Display for GateStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
