//! What became of each partition that a command was for.

use std::fmt;

use redrive_core::{PartitionKey, PartitionState, TerminalReason};
use redrive_store::{PartitionAction, PartitionChange};

/// A partition, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionOutcome {
    /// Which.
    pub key: PartitionKey,
    /// Its verdicts when it was looked at.
    pub attempt_count: u32,
    /// What became of it, or would.
    pub change: ChangeOutcome,
}

/// What became of a partition, or would.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// It was done; it was in this state before.
    Done(PartitionState),
    /// It is so already.
    Already(PartitionState),
    /// It was not done.
    Refused(ChangeRefusal),
}

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeRefusal {
    /// Its state does not allow it.
    State(PartitionState),
    /// It is terminal.
    Terminal(TerminalReason),
    /// The raw sink holds no run of it.
    NoRaw(PartitionState),
    /// The raw sink did not answer.
    RawUnavailable {
        /// The state it is in.
        state: PartitionState,
        /// Why not.
        problem: String,
    },
    /// It has changed since it was looked at.
    Moved(PartitionState),
    /// There is no entry.
    NoEntry,
}

impl ChangeOutcome {
    /// From what a store says to a wish.
    pub(super) fn of(action: PartitionAction, change: PartitionChange) -> Self {
        let is_backfill = matches!(action, PartitionAction::Backfill { .. });
        match change {
            PartitionChange::Done(before) => Self::Done(before),
            PartitionChange::Already(state) => Self::Already(state),
            PartitionChange::Refused(PartitionState::Terminal) if requests_retry(action) => {
                Self::Refused(ChangeRefusal::Terminal(TerminalReason::Marked))
            }
            // A backfill asks for what is not there; what is there is respected.
            PartitionChange::Refused(state) if is_backfill => Self::Already(state),
            PartitionChange::Refused(state) => Self::Refused(ChangeRefusal::State(state)),
            PartitionChange::Moved(state) => Self::Refused(ChangeRefusal::Moved(state)),
            PartitionChange::Unknown => Self::Refused(ChangeRefusal::NoEntry),
        }
    }
}

/// Whether a wish is for another try at what failed, which terminal partitions do not get.
pub(super) fn requests_retry(action: PartitionAction) -> bool {
    match action {
        PartitionAction::Retry { .. } => true,
        PartitionAction::Backfill { force_pending, .. } => force_pending,
        PartitionAction::Reprocess { .. }
        | PartitionAction::MarkTerminal
        | PartitionAction::ClearTerminal
        | PartitionAction::Pause
        | PartitionAction::Resume => false,
    }
}

impl ChangeRefusal {
    /// Whether it is a rail that refuses, which a flag would pass.
    pub fn is_overridable(&self) -> bool {
        match self {
            Self::Terminal(_) | Self::NoRaw(_) | Self::RawUnavailable { .. } => true,
            Self::State(_) | Self::Moved(_) | Self::NoEntry => false,
        }
    }
}

impl fmt::Display for ChangeRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State(state) => write!(f, "it is {}", state.name()),
            Self::Terminal(reason) => write!(f, "it is terminal ({reason})"),
            Self::NoRaw(_) => f.write_str("the raw sink holds no run of it"),
            Self::RawUnavailable { problem, .. } => {
                write!(f, "the raw sink does not answer: {problem}")
            }
            Self::Moved(state) => {
                write!(f, "somebody changed it meanwhile; it is {}", state.name())
            }
            Self::NoEntry => f.write_str("there is no entry"),
        }
    }
}

/// How many partitions met which fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChangeCounts {
    /// Done, or would be.
    pub done: u64,
    /// So already.
    pub already: u64,
    /// Refused by a rail that a flag would pass.
    pub overridable: u64,
    /// Refused by what they are, or because they are not.
    pub refused: u64,
}

impl ChangeCounts {
    /// One more.
    pub fn add(&mut self, outcome: &PartitionOutcome) {
        let count = match &outcome.change {
            ChangeOutcome::Done(_) => &mut self.done,
            ChangeOutcome::Already(_) => &mut self.already,
            ChangeOutcome::Refused(refusal) if refusal.is_overridable() => &mut self.overridable,
            ChangeOutcome::Refused(_) => &mut self.refused,
        };
        *count += 1;
    }

    /// How many were looked at.
    pub fn total(&self) -> u64 {
        self.done + self.already + self.overridable + self.refused
    }
}
