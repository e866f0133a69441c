//! What is wished of partitions, by whom, and past which rails.

use redrive_store::{AuditContext, PartitionAction};

/// A command of the control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionCommand {
    /// What is wished.
    pub action: PartitionAction,
    /// Who gave it, when and why, as the journal tells it.
    pub audit: AuditContext,
    /// Also for those that a limit of their policy has ended.
    pub override_limits: bool,
    /// Also for those of which the raw sink holds no run.
    pub allow_missing_raw: bool,
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
    pub fn new(action: PartitionAction, audit: AuditContext) -> Self {
        let override_limits = matches!(action, PartitionAction::Retry { clear_terminal: true, .. });
        Self { action, audit, override_limits, allow_missing_raw: false }
    }

    /// The same, also for those without raw data.
    pub fn forced(self) -> Self {
        Self { allow_missing_raw: true, ..self }
    }

    /// Whether the raw sink has a say.
    pub(super) fn requires_raw(&self) -> bool {
        match self.action {
            PartitionAction::Retry { .. } | PartitionAction::Reprocess { .. } => {
                !self.allow_missing_raw
            }
            PartitionAction::Backfill { .. }
            | PartitionAction::MarkTerminal
            | PartitionAction::ClearTerminal
            | PartitionAction::Pause
            | PartitionAction::Resume => false,
        }
    }

    /// Whether nothing is to be decided before the store decides, so that nothing need be read before.
    pub(super) fn needs_no_read(&self) -> bool {
        matches!(self.action, PartitionAction::Backfill { force_pending: false, .. })
    }
}
