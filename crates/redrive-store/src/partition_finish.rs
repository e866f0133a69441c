//! What a verdict writes, worked out once for every database.
//!
//! A store reads the partition with its work, locked, and binds what it is told here. So SQLite and
//! PostgreSQL cannot drift apart on what a failed reprocess leaves alone.

use jiff::Timestamp;
use redrive_core::{
    AttemptNumber, Cause, Failure, Message, PartitionEvent, PartitionId, PartitionKey,
    PartitionState, PartitionStatus, TerminalReason, Unit, defuse_terminal_mark,
};
use serde_json::json;

use crate::{
    AttemptOutcome, AttemptRecord, JournalEntry, PartitionFinish, PartitionRecord,
    PartitionVerdict, PartitionWorkRecord, UnitKind, UnitRow,
};

/// What is to be written of one partition, in one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionWrite {
    /// The partition as it will be.
    pub after: PartitionRecord,
    /// Whether its row of `partition_state` changes.
    pub state_changed: bool,
    /// What becomes of its row of work.
    pub work: WorkWrite,
    /// The row of the ledger.
    pub attempt: Option<AttemptRecord>,
    /// The rows of the journal.
    pub journal: Vec<JournalEntry>,
}

/// What becomes of a row of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkWrite {
    /// It stays as it is.
    Keep,
    /// It is made, or changed, to what the partition has.
    Put,
    /// It goes, and a new one with another id takes its place: leases of the old one are void.
    Replace,
    /// It goes.
    Remove,
}

impl PartitionFinish {
    /// What is written, given the partition as it is; nothing if the verdict comes too late, from one
    /// who does not hold the partition or holds it for another run.
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

    /// What happened, as the state machine calls it.
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
                // What has authority keeps it, and an operator's mark stays.
                PartitionState::Reprocessing
                | PartitionState::Success
                | PartitionState::Terminal
                | PartitionState::Absent => {}
            },
        }
    }

    /// The request is done with. A partition that was paused meanwhile stays so.
    fn release(&self, work: &PartitionWorkRecord, after: &mut PartitionRecord) -> WorkWrite {
        after.work = None;
        let Some(paused) = work.paused.clone() else { return WorkWrite::Remove };
        after.work =
            Some(PartitionWorkRecord { paused: Some(paused), ..PartitionWorkRecord::none() });
        WorkWrite::Replace
    }

    /// The row of the ledger of a partition.
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

/// A message for a failure, never empty and never with an operator's mark.
fn what_failed(failure: &Failure) -> String {
    match failure.message().as_str() {
        "" => failure.code().to_string(),
        message => defuse_terminal_mark(message).into_owned(),
    }
}

/// What the journal says, once for each count of attempts, of a partition that nothing retries any
/// more (DMN-3).
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
