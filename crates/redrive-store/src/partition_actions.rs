//! What the control plane may do to partitions, worked out once for every database.
//!
//! A store reads the partitions that are named, locked, asks here what becomes of each, and writes what
//! the result. What is legal is said by [`PartitionState::apply`] alone.

use std::collections::HashMap;

use jiff::Timestamp;
use redrive_core::{
    Epoch, PartitionEvent, PartitionKey, PartitionState, PartitionStatus, Unit, clear_terminal,
    mark_terminal,
};
use serde_json::json;

use crate::{
    JournalEntry, Lane, Operator, PartitionFilter, PartitionRecord, PartitionWorkRecord,
    PartitionWrite, WorkKind, WorkRequest, WorkWrite,
};

/// What the control plane may wish of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PartitionAction {
    /// That a failed one is tried again.
    Retry {
        /// Also if it is marked terminal; the mark is cleared.
        clear_terminal: bool,
        /// With whom it competes.
        lane: Lane,
    },
    /// That a good one is done again.
    Reprocess {
        /// With whom it competes.
        lane: Lane,
    },
    /// That it is extracted, if there is no entry yet.
    Backfill {
        /// Also if its last attempt failed.
        force_pending: bool,
        /// With whom it competes: a day that has just come is fresh.
        lane: Lane,
    },
    /// That a failed one is not retried.
    MarkTerminal,
    /// That it may be retried again.
    ClearTerminal,
    /// That nothing more of it is claimed.
    Pause,
    /// That claims go on.
    Resume,
}

/// A partition that is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPartition {
    /// Its key.
    pub key: PartitionKey,
    /// How it was when somebody decided that it should change; then it changes only if it still is.
    pub expected: Option<PartitionSnapshot>,
}

/// How a partition was when it was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionSnapshot {
    /// Its status.
    pub status: PartitionStatus,
    /// Its verdicts.
    pub attempt_count: u32,
    /// Its last change.
    pub updated_at: Timestamp,
    /// Whether it was paused, which changes none of these.
    pub paused: bool,
}

impl PartitionSnapshot {
    /// How a record is.
    pub fn of(record: &PartitionRecord) -> Self {
        let PartitionRecord { status, attempt_count, updated_at, .. } = *record;
        Self { status, attempt_count, updated_at, paused: record.paused().is_some() }
    }
}

impl From<&PartitionRecord> for NamedPartition {
    /// As it was read.
    fn from(record: &PartitionRecord) -> Self {
        Self { key: record.key.clone(), expected: Some(PartitionSnapshot::of(record)) }
    }
}

impl From<PartitionKey> for NamedPartition {
    /// However it is.
    fn from(key: PartitionKey) -> Self {
        Self { key, expected: None }
    }
}

/// A command of the control plane, as the journal tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditContext {
    /// Who gave it, when and why.
    pub by: Operator,
    /// The command, such as `state retry` or `daemon`.
    pub command: String,
    /// Which partitions it was given for, if by filter.
    pub filter: Option<PartitionFilter>,
    /// How it was given, such as `--force`.
    pub flags: Vec<String>,
}

/// What became of a wish for one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionChange {
    /// It was done, and the partition was in this state before.
    Done(PartitionState),
    /// It is so already; nothing happened.
    Already(PartitionState),
    /// Its state does not allow it; nothing was changed.
    Refused(PartitionState),
    /// It has changed since it was looked at; nothing was changed.
    Moved(PartitionState),
    /// There is no entry.
    Unknown,
}

impl PartitionAction {
    /// The wish, as the journal calls it.
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

    /// Whether partitions without an entry get one: pending, never judged, changed when the order was
    /// given. A store inserts it before it asks what else becomes of the partition.
    pub fn makes_entries(self) -> bool {
        matches!(self, Self::Backfill { .. })
    }

    /// What becomes of each of some partitions, one after another. `found` has those that are there,
    /// `made` says which of them had no entry until just now. One call changes a partition once: after
    /// any wish, the same wish has nothing left to do.
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

    /// Whether nothing is left to do.
    fn is_so(self, record: &PartitionRecord) -> bool {
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

    fn is_allowed(self, state: PartitionState) -> bool {
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
            // Who works on a partition is no part of its state.
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
                // The row says what has authority, and that is as it was.
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

/// What the journal says of one order. Most of it is the same for every partition, and is written once.
struct JournalTemplate<'a> {
    action: PartitionAction,
    order: &'a AuditContext,
    filter: Option<String>,
    details: HashMap<PartitionState, String>,
}

impl<'a> JournalTemplate<'a> {
    fn new(action: PartitionAction, order: &'a AuditContext) -> Self {
        let filter = order.filter.as_ref().map(|filter| filter.to_json().to_string());
        Self { action, order, filter, details: HashMap::new() }
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
            filter: self.filter.clone(),
            details: details.clone(),
            dedupe_key: None,
        }
    }
}

/// The work of a partition, begun if there is none.
fn work_of(record: &mut PartitionRecord) -> &mut PartitionWorkRecord {
    record.work.get_or_insert_with(PartitionWorkRecord::none)
}

impl PartitionWorkRecord {
    /// Nothing asked for, nobody at it. Its id is given out when it is written.
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
    /// The same with its text made safe to keep and to print. Stores do this to every order they are
    /// given.
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
