//! The outcome of an action for one unit.

use serde::Serialize;

/// What an action did to a unit, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UnitChange {
    /// Such as `run:17`.
    pub unit: String,
    pub outcome: ChangeResult,
    /// The state before.
    pub before: Option<String>,
    /// The outcome in words.
    pub why: Option<String>,
    /// Whether a flag, or another time, allows what was refused.
    #[serde(skip)]
    pub is_overridable: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChangeResult {
    Done,
    /// In a dry run.
    WouldBeDone,
    /// The unit is as requested without a change.
    Already,
    /// The state of the unit does not allow the action.
    Refused,
    /// There is no such unit.
    Unknown,
}

impl ChangeResult {
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::WouldBeDone => "would_be_done",
            Self::Already => "already",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
        }
    }

    pub(super) fn done(dry_run: bool) -> Self {
        if dry_run { Self::WouldBeDone } else { Self::Done }
    }
}

impl UnitChange {
    pub(crate) fn new(unit: impl ToString, outcome: ChangeResult) -> Self {
        Self { unit: unit.to_string(), outcome, before: None, why: None, is_overridable: false }
    }

    pub(crate) fn refused(unit: impl ToString, why: impl Into<String>) -> Self {
        Self::new(unit, ChangeResult::Refused).because(why)
    }

    pub(super) fn unknown(unit: impl ToString, noun: &str) -> Self {
        Self::new(unit, ChangeResult::Unknown).because(format!("there is no such {noun}"))
    }

    pub(crate) fn because(self, why: impl Into<String>) -> Self {
        Self { why: Some(why.into()), ..self }
    }

    pub(crate) fn was(self, before: &str) -> Self {
        Self { before: Some(before.to_owned()), ..self }
    }
}

/// Outcomes, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutcomeCounts {
    pub done: u64,
    pub already: u64,
    /// Refused, but a flag, or another time, allows it.
    pub overridable: u64,
    /// Refused or unknown.
    pub refused: u64,
}

impl OutcomeCounts {
    pub fn total(&self) -> u64 {
        self.done + self.already + self.overridable + self.refused
    }

    pub fn add(&mut self, change: &UnitChange) {
        let count = match change.outcome {
            ChangeResult::Done | ChangeResult::WouldBeDone => &mut self.done,
            ChangeResult::Already => &mut self.already,
            ChangeResult::Refused if change.is_overridable => &mut self.overridable,
            ChangeResult::Refused | ChangeResult::Unknown => &mut self.refused,
        };
        *count += 1;
    }
}
