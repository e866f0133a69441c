//! What is told, as CloudEvents 1.0.

use jiff::Timestamp;
use redrive_core::{PartitionKey, Unit};
use redrive_store::{JournalRecord, PartitionRecord, PipelineRunRecord, RunRecord};
use serde_json::{Map, Value, json};

/// Something to tell.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CloudEvent {
    /// What tells it from every other of this store.
    pub(super) id: String,
    /// When it happened.
    at: Timestamp,
    /// What, such as `redrive.run.giveup`.
    pub(super) kind: String,
    /// What it is about.
    pub(super) subject: String,
    data: Map<String, Value>,
}

impl CloudEvent {
    /// Of an entry of the journal: its action, its details, and what more is known.
    fn of(record: &JournalRecord, subject: String, more: Value) -> Self {
        let entry = &record.entry;
        let mut data = Map::new();
        for part in [serde_json::from_str(&entry.details).unwrap_or_default(), more] {
            if let Value::Object(part) = part {
                data.extend(part);
            }
        }
        Self {
            id: format!("journal:{}", record.id),
            at: entry.at,
            kind: format!("redrive.{}", entry.action),
            subject,
            data,
        }
    }

    /// A run that was given up.
    pub(super) fn of_run(record: &JournalRecord, run: &RunRecord) -> Self {
        let more = json!({
            "queue": run.queue,
            "category": run.category,
            "error_class": run.error_class,
            "error_message": run.error_message,
        });
        Self::of(record, Unit::Run(run.id).to_string(), more)
    }

    /// A partition that nothing retries any more.
    pub(super) fn of_partition(
        record: &JournalRecord,
        key: &PartitionKey,
        partition: Option<&PartitionRecord>,
    ) -> Self {
        let more = json!({
            "source": key.source(),
            "customer_id": key.customer_id(),
            "query_name": key.query_name(),
            "logical_date": key.logical_date().to_string(),
            "error_message": partition.and_then(|partition| partition.error_message.as_deref()),
        });
        Self::of(record, Unit::Partition(key.clone()).to_string(), more)
    }

    /// An item that was given up; the journal has all of it.
    pub(super) fn of_item(record: &JournalRecord, unit: &Unit) -> Self {
        Self::of(record, unit.to_string(), Value::Null)
    }

    /// A pipeline run that was aborted.
    pub(super) fn of_abort(record: &JournalRecord, run: &PipelineRunRecord) -> Self {
        Self::of(record, subject_of(run), tally_of(run))
    }

    /// Dead letters of a pipeline run that have become so many: the last multiple that was passed.
    /// None, if there are fewer than that.
    pub(super) fn of_dead_letters(
        run: &PipelineRunRecord,
        every: u64,
        at: Timestamp,
    ) -> Option<Self> {
        let passed = (run.progress.tally.dlq / every.max(1)).saturating_mul(every);
        let Value::Object(mut data) = tally_of(run) else { return None };
        data.insert("passed".to_owned(), passed.into());
        (passed > 0).then(|| Self {
            id: format!("dead-letters:{}:{passed}", run.id),
            at,
            kind: "redrive.pipeline.dead-letters".to_owned(),
            subject: subject_of(run),
            data,
        })
    }

    /// As it is sent.
    pub(super) fn to_json(&self, source: &str) -> Value {
        json!({
            "specversion": "1.0",
            "id": self.id,
            "source": source,
            "type": self.kind,
            "subject": self.subject,
            "time": self.at.to_string(),
            "datacontenttype": "application/json",
            "data": self.data,
        })
    }
}

fn subject_of(run: &PipelineRunRecord) -> String {
    format!("pipeline-run:{}", run.id)
}

fn tally_of(run: &PipelineRunRecord) -> Value {
    let tally = run.progress.tally;
    json!({
        "pipeline": run.pipeline,
        "pipeline_run": run.id.0,
        "status": run.progress.status.name(),
        "total": tally.total,
        "succeeded": tally.succeeded,
        "skipped": tally.skipped,
        "dlq": tally.dlq,
    })
}
