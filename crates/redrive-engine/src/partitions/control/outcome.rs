//! What happened to each partition of a command, and why a change was refused.

use std::fmt;

use redrive_core::{PartitionKey, PartitionState, TerminalReason};
use redrive_store::{PartitionAction, PartitionChange};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionOutcome {
    pub key: PartitionKey,
    /// The count when the partition was read; 0 if it was not read.
    pub attempt_count: u32,
    pub change: ChangeOutcome,
}

/// What a command did to a partition, or would do in a dry run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// Changed. Holds the state before the change.
    Done(PartitionState),
    /// Nothing to do: the partition is already as requested.
    Already(PartitionState),
    Refused(ChangeRefusal),
}

/// Why a partition was not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeRefusal {
    /// The state machine does not allow the action in this state.
    State(PartitionState),
    Terminal(TerminalReason),
    /// The raw sink holds no run of the partition.
    NoRaw(PartitionState),
    /// The raw sink could not be read.
    RawUnavailable {
        state: PartitionState,
        problem: String,
    },
    /// The partition changed after it was read. Holds its new state.
    Moved(PartitionState),
    NoEntry,
}

impl ChangeOutcome {
    pub(super) fn of(action: PartitionAction, change: PartitionChange) -> Self {
        let is_backfill = matches!(action, PartitionAction::Backfill { .. });
        match change {
            PartitionChange::Done(before) => Self::Done(before),
            PartitionChange::Already(state) => Self::Already(state),
            PartitionChange::Refused(PartitionState::Terminal) if requests_retry(action) => {
                Self::Refused(ChangeRefusal::Terminal(TerminalReason::Marked))
            }
            // A backfill requests missing partitions only; an existing one needs nothing.
            PartitionChange::Refused(state) if is_backfill => Self::Already(state),
            PartitionChange::Refused(state) => Self::Refused(ChangeRefusal::State(state)),
            PartitionChange::Moved(state) => Self::Refused(ChangeRefusal::Moved(state)),
            PartitionChange::Unknown => Self::Refused(ChangeRefusal::NoEntry),
        }
    }
}

/// Whether an action retries failed partitions, which a terminal partition refuses.
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
    /// Whether the operator can override the refusal with a flag.
    pub fn is_overridable(&self) -> bool {
        match self {
            Self::Terminal(_) | Self::NoRaw(_) | Self::RawUnavailable { .. } => true,
            Self::State(_) | Self::Moved(_) | Self::NoEntry => false,
        }
    }
}

impl ChangeRefusal {
    /// What many partitions may have in common, and what is known of this one alone.
    pub(crate) fn into_words(self) -> (String, Option<String>) {
        match self {
            Self::RawUnavailable { problem, .. } => {
                ("cannot read the raw sink".to_owned(), Some(problem))
            }
            refusal => (refusal.to_string(), None),
        }
    }
}

impl fmt::Display for ChangeRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State(state) => write!(f, "the partition is {}", state.name()),
            Self::Terminal(reason) => write!(
                f,
                "the partition is terminal ({reason}); `state retry --clear-terminal` retries it"
            ),
            Self::NoRaw(_) => f.write_str(
                "the data of the partition was judged and is gone from the raw sink; --force changes the partition anyway",
            ),
            Self::RawUnavailable { problem, .. } => {
                write!(f, "cannot read the raw sink: {problem}")
            }
            Self::Moved(state) => {
                write!(f, "the partition changed meanwhile and is now {}", state.name())
            }
            Self::NoEntry => f.write_str("the partition has no entry"),
        }
    }
}
