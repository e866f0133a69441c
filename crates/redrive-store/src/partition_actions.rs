//! Control plane actions on partitions, implemented once for every database.
//!
//! A store reads and locks the named partitions, calls [`PartitionAction::changes`], and writes the
//! result. [`PartitionState::apply`] alone decides what is legal.

use std::collections::HashMap;

use jiff::Timestamp;
use redrive_core::{
    Epoch, PartitionEvent, PartitionKey, PartitionState, PartitionStatus, Unit, clear_terminal,
    mark_terminal,
};
use serde_json::json;

use crate::{
    JournalEntry, Lane, Operator, PartitionRecord, PartitionWorkRecord, PartitionWrite, PlanRecord,
    WorkKind, WorkRequest, WorkWrite,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PartitionAction {
    /// Retry a failed partition.
    Retry {
        /// Also retry a partition marked `[terminal]`, and clear the mark.
        clear_terminal: bool,
        lane: Lane,
    },
    /// Process a successful partition again.
    Reprocess {
        lane: Lane,
    },
    /// Request a partition that has no row.
    Backfill {
        /// Also request a partition whose last attempt failed.
        force_pending: bool,
        /// A new day is `Lane::Fresh`.
        lane: Lane,
    },
    MarkTerminal,
    ClearTerminal,
    /// Stop further claims of the partition.
    Pause,
    Resume,
}

/// A partition to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPartition {
    pub key: PartitionKey,
    /// If given, the partition changes only if it still matches the snapshot.
    pub expected: Option<PartitionSnapshot>,
}

/// The state of a partition when it was read, for optimistic concurrency control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionSnapshot {
    pub status: PartitionStatus,
    pub attempt_count: u32,
    pub updated_at: Timestamp,
    /// Part of the snapshot because a pause changes no other field of it.
    pub paused: bool,
}

impl PartitionSnapshot {
    pub fn of(record: &PartitionRecord) -> Self {
        let PartitionRecord { status, attempt_count, updated_at, .. } = *record;
        Self { status, attempt_count, updated_at, paused: record.paused().is_some() }
    }
}

impl From<&PartitionRecord> for NamedPartition {
    /// Expects the partition as it was read.
    fn from(record: &PartitionRecord) -> Self {
        Self { key: record.key.clone(), expected: Some(PartitionSnapshot::of(record)) }
    }
}

impl From<PartitionKey> for NamedPartition {
    /// Changes the partition in any state.
    fn from(key: PartitionKey) -> Self {
        Self { key, expected: None }
    }
}

/// The context of an action, for the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditContext {
    pub by: Operator,
    /// Such as `state retry` or `daemon`.
    pub command: String,
    /// The filter that selected the partitions, if any, as JSON.
    pub filter: Option<String>,
    /// The flags of the command, such as `--force`.
    pub flags: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionChange {
    /// The action was applied; the partition was in this state before.
    Done(PartitionState),
    /// The partition is already in the requested state; nothing changed.
    Already(PartitionState),
    /// The state does not allow the action; nothing changed.
    Refused(PartitionState),
    /// The partition no longer matches the snapshot; nothing changed.
    Moved(PartitionState),
    Unknown,
}

impl PartitionAction {
    pub fn action(self) -> &'static str {
        match self {
            Self::Retry { .. } => "partition.retry",
            Self::Reprocess { .. } => "partition.reprocess",
            Self::Backfill { .. } => "partition.backfill",
            Self::MarkTerminal => "partition.mark_terminal",
            Self::ClearTerminal => "partition.clear_terminal",
            Self::Pause => "partition.pause",
            Self::Resume => "partition.resume",
        }
    }

    /// Whether the action inserts a row for a partition that has none. A store inserts a pending
    /// row with `updated_at` of the action before it calls [`changes`](Self::changes).
    pub fn makes_entries(self) -> bool {
        matches!(self, Self::Backfill { .. })
    }

    /// The result of the action for each partition. `found` has the partitions that had a row,
    /// `made` the rows that were inserted just now. One call changes a partition once: a repeated
    /// action has nothing left to do.
    pub fn changes<'a>(
        self,
        named: &'a [NamedPartition],
        found: HashMap<PartitionKey, PartitionRecord>,
        mut made: HashMap<PartitionKey, PartitionRecord>,
        order: &AuditContext,
    ) -> Vec<(PartitionChange, Option<PartitionWrite>)> {
        let mut journal = JournalTemplate::new(self, order);
        let mut changed: HashMap<&PartitionKey, PartitionState> = HashMap::new();
        let change = |NamedPartition { key, expected }: &'a NamedPartition| {
            if let Some(after) = changed.get(key) {
                return (PartitionChange::Already(*after), None);
            }
            let (state, record) = if let Some(new) = made.remove(key) {
                (PartitionState::Absent, new)
            } else {
                let Some(there) = found.get(key) else { return (PartitionChange::Unknown, None) };
                let state = there.state();
                if self.is_so(there) {
                    return (PartitionChange::Already(state), None);
                }
                if expected.is_some_and(|expected| expected != PartitionSnapshot::of(there)) {
                    return (PartitionChange::Moved(state), None);
                }
                if !self.is_allowed(state) {
                    return (PartitionChange::Refused(state), None);
                }
                (state, there.clone())
            };
            let write = self.write(state, record, &mut journal);
            changed.insert(key, write.after.state());
            (PartitionChange::Done(state), Some(write))
        };
        named.iter().map(change).collect()
    }

    /// Whether the partition is already in the requested state.
    pub(crate) fn is_so(self, record: &PartitionRecord) -> bool {
        let state = record.state();
        match self {
            Self::Retry { .. } | Self::Backfill { .. } => state == PartitionState::Pending,
            Self::Reprocess { .. } => state == PartitionState::Reprocessing,
            Self::MarkTerminal => state == PartitionState::Terminal,
            Self::ClearTerminal => state == PartitionState::Failed,
            Self::Pause => record.paused().is_some(),
            Self::Resume => record.paused().is_none(),
        }
    }

    pub(crate) fn is_allowed(self, state: PartitionState) -> bool {
        use PartitionEvent as E;
        let event = match self {
            Self::Retry { clear_terminal: true, .. } if state == PartitionState::Terminal => {
                let cleared = state.apply(E::ClearTerminal);
                return cleared.is_ok_and(|failed| failed.apply(E::Retry).is_ok());
            }
            Self::Retry { .. } => E::Retry,
            Self::Reprocess { .. } => E::Reprocess,
            Self::Backfill { force_pending: true, .. } => E::ForcePending,
            Self::Backfill { force_pending: false, .. } => E::Backfill,
            Self::MarkTerminal => E::MarkTerminal,
            Self::ClearTerminal => E::ClearTerminal,
            // Leases and pauses are not part of the state of a partition.
            Self::Pause | Self::Resume => return true,
        };
        state.apply(event).is_ok()
    }

    fn write(
        self,
        before: PartitionState,
        mut after: PartitionRecord,
        journal: &mut JournalTemplate<'_>,
    ) -> PartitionWrite {
        let order = journal.order;
        let ask = |kind, lane| WorkRequest {
            kind,
            lane,
            requested_at: order.by.at,
            requested_by: order.by.actor.clone(),
        };
        let mut state_changed = before != PartitionState::Absent;
        let mut work = WorkWrite::Put;
        match self {
            Self::Retry { lane, .. } | Self::Backfill { lane, .. } => {
                after.status = PartitionStatus::Pending;
                after.error_message = after.error_message.as_deref().map(clear_terminal);
                let kind = if after.attempt_count == 0 { WorkKind::First } else { WorkKind::Retry };
                work_of(&mut after).request = Some(ask(kind, lane));
            }
            Self::Reprocess { lane } => {
                work_of(&mut after).request = Some(ask(WorkKind::Reprocess, lane));
                // The current data stays valid until the reprocess succeeds.
                state_changed = false;
            }
            Self::MarkTerminal => {
                after.error_message = Some(mark_terminal(after.error_message.as_deref()));
                work = WorkWrite::Keep;
            }
            Self::ClearTerminal => {
                after.error_message = after.error_message.as_deref().map(clear_terminal);
                work = WorkWrite::Keep;
            }
            Self::Pause => {
                work_of(&mut after).paused = Some(order.by.clone());
                state_changed = false;
            }
            Self::Resume => {
                work_of(&mut after).paused = None;
                state_changed = false;
                if work_of(&mut after).request.is_none() {
                    after.work = None;
                    work = WorkWrite::Remove;
                }
            }
        }
        if state_changed {
            after.updated_at = order.by.at;
        }
        let journal = vec![journal.entry(&after.key, before)];
        PartitionWrite { after, state_changed, work, attempt: None, journal }
    }
}

/// Builds journal entries for one action. The shared parts are built once.
struct JournalTemplate<'a> {
    action: PartitionAction,
    order: &'a AuditContext,
    details: HashMap<PartitionState, String>,
}

impl<'a> JournalTemplate<'a> {
    fn new(action: PartitionAction, order: &'a AuditContext) -> Self {
        Self { action, order, details: HashMap::new() }
    }

    fn entry(&mut self, key: &PartitionKey, before: PartitionState) -> JournalEntry {
        let AuditContext { by, command, flags, .. } = self.order;
        let lane = match self.action {
            PartitionAction::Retry { lane, .. }
            | PartitionAction::Reprocess { lane }
            | PartitionAction::Backfill { lane, .. } => Some(lane.name()),
            PartitionAction::MarkTerminal
            | PartitionAction::ClearTerminal
            | PartitionAction::Pause
            | PartitionAction::Resume => None,
        };
        let details = self.details.entry(before).or_insert_with(|| {
            json!({
                "before": before.name(),
                "command": command,
                "flags": flags,
                "lane": lane,
                "reason": by.reason,
            })
            .to_string()
        });
        JournalEntry {
            at: by.at,
            actor: by.actor.clone(),
            action: self.action.action().to_owned(),
            unit: Some(Unit::Partition(key.clone()).to_string()),
            filter: self.order.filter.clone(),
            details: details.clone(),
            dedupe_key: None,
        }
    }
}

/// The work record of a partition, created if there is none.
fn work_of(record: &mut PartitionRecord) -> &mut PartitionWorkRecord {
    record.work.get_or_insert_with(PartitionWorkRecord::none)
}

impl PartitionWorkRecord {
    /// An empty work record. The store assigns the id.
    pub(crate) fn none() -> Self {
        Self {
            id: 0,
            request: None,
            run_id: None,
            lease_owner: None,
            lease_epoch: Epoch(0),
            lease_until: None,
            paused: None,
        }
    }
}

impl AuditContext {
    pub fn of_plan(plan: &PlanRecord, by: &Operator) -> Self {
        let command = format!("plan {}", plan.id);
        let (filter, flags) = (Some(plan.selection.clone()), plan.action.flags());
        Self { by: by.clone(), command, filter, flags }
    }

    /// The context with texts that are safe to store and to print. Stores clean every context.
    pub fn cleaned(&self) -> Self {
        let clean = |text: &String| redrive_core::Message::clean(text).as_str().to_owned();
        Self {
            by: self.by.cleaned(),
            command: clean(&self.command),
            filter: self.filter.clone(),
            flags: self.flags.iter().map(clean).collect(),
        }
    }
}
