//! A command for partitions: the action, its audit context, and which safety checks it overrides.

use redrive_core::clear_terminal;
use redrive_store::{AuditContext, Operator, PartitionAction, PartitionRecord, PlanAction};

use crate::partitions::validator::NO_RAW_PARTITION;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionCommand {
    pub action: PartitionAction,
    /// Written to the journal with every change. Its time is also the "now" of every decision.
    pub audit: AuditContext,
    /// Also change partitions that a limit of their policy has made terminal.
    pub override_limits: bool,
    /// Also change partitions whose raw data is gone.
    pub allow_missing_raw: bool,
}

/// Whether a command writes its changes or only reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunMode {
    Real,
    DryRun,
}

impl PartitionCommand {
    /// A command that overrides nothing, except that `Retry { clear_terminal: true }` overrides the limits
    /// of the policy: an operator who clears the terminal mark wants the retry.
    pub fn new(action: PartitionAction, audit: AuditContext) -> Self {
        let override_limits = matches!(action, PartitionAction::Retry { clear_terminal: true, .. });
        Self { action, audit, override_limits, allow_missing_raw: false }
    }

    /// `None` if the action is not about partitions.
    pub(super) fn of_plan(action: PlanAction, by: &Operator) -> Option<Self> {
        let audit = AuditContext {
            by: by.clone(),
            command: "plan".to_owned(),
            filter: None,
            flags: Vec::new(),
        };
        let command = Self::new(action.partition()?, audit);
        let forced = matches!(action, PlanAction::ForcedPartition(_));
        Some(if forced { command.forced() } else { command })
    }

    /// Also changes partitions whose raw data is gone.
    pub fn forced(self) -> Self {
        Self { allow_missing_raw: true, ..self }
    }

    /// Whether a partition is refused if the raw sink holds no run of it: where data was judged, by a success or by a
    /// verdict. An extraction that failed left nothing behind, and is retried without asking (FIX-4).
    pub(super) fn requires_raw(&self, partition: &PartitionRecord) -> bool {
        let judged = match self.action {
            PartitionAction::Retry { .. }
            | PartitionAction::Backfill { force_pending: true, .. } => {
                let message = partition.error_message.as_deref().unwrap_or_default();
                !clear_terminal(message).starts_with(NO_RAW_PARTITION)
            }
            PartitionAction::Reprocess { .. } => true,
            PartitionAction::Backfill { .. }
            | PartitionAction::MarkTerminal
            | PartitionAction::ClearTerminal
            | PartitionAction::Pause
            | PartitionAction::Resume => false,
        };
        judged && !self.allow_missing_raw
    }

    /// Whether the store alone decides about every partition, so that none is read beforehand.
    pub(super) fn needs_no_read(&self) -> bool {
        matches!(self.action, PartitionAction::Backfill { force_pending: false, .. })
    }
}
