//! The rows that a verdict writes, computed once for every database.
//!
//! A store reads and locks the partition with its work row, and binds the values computed here. So
//! SQLite and PostgreSQL cannot differ on what a failed reprocess leaves unchanged.

use jiff::Timestamp;
use redrive_core::{
    AttemptNumber, Cause, Failure, Message, PartitionEvent, PartitionId, PartitionKey,
    PartitionState, PartitionStatus, TerminalReason, Unit, defuse_terminal_mark,
};
use serde_json::json;

use crate::{
    AttemptEnd, AttemptOutcome, AttemptRecord, JournalEntry, PartitionFinish, PartitionRecord,
    PartitionVerdict, PartitionWorkRecord, UnitKind, UnitRow,
};

/// The writes for one partition, in one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionWrite {
    pub after: PartitionRecord,
    /// Whether the row of `partition_state` changes.
    pub state_changed: bool,
    pub work: WorkWrite,
    /// The row of the ledger.
    pub attempt: Option<AttemptRecord>,
    pub journal: Vec<JournalEntry>,
}

/// What to do with the work row of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkWrite {
    Keep,
    /// Insert or update the work row.
    Put,
    /// Delete the work row and insert a new one. The new id makes old leases invalid.
    Replace,
    Remove,
}

impl PartitionFinish {
    /// The writes for the verdict, or `None` if the verdict is stale: another worker holds the
    /// partition, or the lease is for another run.
    pub fn write(&self, current: &PartitionRecord) -> Option<PartitionWrite> {
        let work = current.work.as_ref()?;
        let held = work.lease_owner.is_some()
            && (work.id, work.lease_epoch) == (self.lease.id, self.lease.epoch)
            && work.run_id.as_ref() == Some(&self.run_id);
        let attempt_count = current.attempt_count.checked_add(1)?;
        if !held || self.attempt != AttemptNumber(attempt_count) {
            return None;
        }
        let before = current.state();
        before.apply(self.event()).ok()?;
        let mut after = current.clone();
        after.attempt_count = attempt_count;
        after.updated_at = self.ended_at;
        after.first_attempt_at = current.first_attempt_at.or(Some(self.started_at));
        self.judge(before, &mut after);
        let work = self.release(work, &mut after);
        Some(PartitionWrite {
            attempt: Some(self.ledger_row(after.id)),
            journal: self.journal_rows(),
            after,
            state_changed: true,
            work,
        })
    }

    pub fn event(&self) -> PartitionEvent {
        match self.verdict {
            PartitionVerdict::Accepted { .. } => PartitionEvent::Pass,
            PartitionVerdict::Rejected { .. } => PartitionEvent::Fail,
        }
    }

    fn judge(&self, before: PartitionState, after: &mut PartitionRecord) {
        match &self.verdict {
            PartitionVerdict::Accepted { record_count, schema_version } => {
                let clean = |text: &String| Message::clean(text).as_str().to_owned();
                after.status = PartitionStatus::Success;
                after.current_run_id = Some(self.run_id.clone());
                after.record_count = Some(*record_count);
                after.schema_version = schema_version.as_ref().map(clean);
                after.error_message = None;
            }
            PartitionVerdict::Rejected { failure } => match before {
                PartitionState::Pending | PartitionState::Failed => {
                    after.status = PartitionStatus::Failed;
                    after.error_message = Some(what_failed(failure));
                }
                // A failed reprocess keeps the current data, and an operator's mark stays.
                PartitionState::Reprocessing
                | PartitionState::Success
                | PartitionState::Terminal
                | PartitionState::Absent => {}
            },
        }
    }

    /// Ends the request. A partition that was paused in the meantime stays paused.
    fn release(&self, work: &PartitionWorkRecord, after: &mut PartitionRecord) -> WorkWrite {
        after.work = None;
        let Some(paused) = work.paused.clone() else { return WorkWrite::Remove };
        after.work =
            Some(PartitionWorkRecord { paused: Some(paused), ..PartitionWorkRecord::none() });
        WorkWrite::Replace
    }

    pub fn attempt_end(&self) -> AttemptEnd {
        let outcome = match &self.verdict {
            PartitionVerdict::Accepted { .. } => AttemptOutcome::Success,
            PartitionVerdict::Rejected { .. } => AttemptOutcome::Failed,
        };
        AttemptEnd { outcome, started_at: self.started_at, ended_at: self.ended_at }
    }

    pub fn ledger_row(&self, id: PartitionId) -> AttemptRecord {
        let row = AttemptRecord {
            run_id: Some(self.run_id.to_string()),
            ..AttemptRecord::success(
                UnitRow::new(UnitKind::Partition, id.0),
                self.attempt,
                self.started_at,
                self.ended_at,
                &self.worker.0,
            )
        };
        match &self.verdict {
            PartitionVerdict::Accepted { .. } => row,
            PartitionVerdict::Rejected { failure } => AttemptRecord {
                outcome: AttemptOutcome::Failed,
                message: Some(what_failed(failure)),
                ..row.with_failure(failure)
            },
        }
    }

    fn journal_rows(&self) -> Vec<JournalEntry> {
        let lost = match &self.verdict {
            PartitionVerdict::Rejected { failure } => failure.cause() == Cause::LostWorker,
            PartitionVerdict::Accepted { .. } => false,
        };
        let details = json!({
            "attempt": self.attempt.0, "epoch": self.lease.epoch.0, "run_id": self.run_id.as_str(),
        });
        let entry = || JournalEntry {
            at: self.ended_at,
            actor: self.worker.0.clone(),
            action: "partition.lease_lost".to_owned(),
            unit: Some(Unit::Partition(self.key.clone()).to_string()),
            filter: None,
            details: details.to_string(),
            dedupe_key: None,
        };
        lost.then(entry).into_iter().collect()
    }
}

/// A message for a failure: never empty, never with an operator's mark.
fn what_failed(failure: &Failure) -> String {
    match failure.message().as_str() {
        "" => failure.code().to_string(),
        message => defuse_terminal_mark(message).into_owned(),
    }
}

/// The journal entry for a partition that is not retried any more (DMN-3). The dedupe key records
/// it once per attempt count.
pub fn partition_giveup(
    key: &PartitionKey,
    attempt_count: u32,
    reason: TerminalReason,
    actor: &str,
    at: Timestamp,
) -> JournalEntry {
    let unit = Unit::Partition(key.clone()).to_string();
    JournalEntry {
        at,
        actor: actor.to_owned(),
        action: "partition.giveup".to_owned(),
        dedupe_key: Some(format!("giveup:{unit}:{attempt_count}")),
        unit: Some(unit),
        filter: None,
        details: json!({ "reason": reason.name(), "attempts": attempt_count }).to_string(),
    }
}
