//! What is wished of partitions, by whom, and past which rails.

use redrive_store::{PartitionOrder, PartitionWish};

/// A command of the control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionCommand {
    /// What is wished.
    pub wish: PartitionWish,
    /// Who gave it, when and why, as the journal tells it.
    pub order: PartitionOrder,
    /// Also for those that a limit of their policy has ended.
    pub past_limits: bool,
    /// Also for those of which the raw sink holds no run.
    pub without_raw: bool,
}

/// Whether something is done or only foreseen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunMode {
    /// It is done.
    Real,
    /// It is foreseen, and nothing is written.
    DryRun,
}

impl PartitionCommand {
    /// A command that passes no rail, but what its wish passes by itself: clearing the operators' mark
    /// is meant to pass the policy's limits too.
    pub fn new(wish: PartitionWish, order: PartitionOrder) -> Self {
        let past_limits = matches!(wish, PartitionWish::Retry { clear_terminal: true, .. });
        Self { wish, order, past_limits, without_raw: false }
    }

    /// The same, also for those without raw data.
    pub fn forced(self) -> Self {
        Self { without_raw: true, ..self }
    }

    /// Whether the raw sink has a say.
    pub(super) fn asks_for_raw(&self) -> bool {
        match self.wish {
            PartitionWish::Retry { .. } | PartitionWish::Reprocess { .. } => !self.without_raw,
            PartitionWish::Backfill { .. }
            | PartitionWish::MarkTerminal
            | PartitionWish::ClearTerminal
            | PartitionWish::Pause
            | PartitionWish::Resume => false,
        }
    }

    /// Whether nothing is to be decided before the store decides, so that nothing need be read before.
    pub(super) fn leaves_all_to_the_store(&self) -> bool {
        matches!(self.wish, PartitionWish::Backfill { force_pending: false, .. })
    }
}
