//! Makes CloudEvents 1.0 of journal entries.

use jiff::Timestamp;
use redrive_core::{PartitionKey, Unit};
use redrive_store::{JournalRecord, PartitionRecord, PipelineRunRecord, RunRecord};
use serde_json::{Map, Value, json};

#[derive(Debug, Clone, PartialEq)]
pub(super) struct CloudEvent {
    /// Unique in the store.
    pub(super) id: String,
    at: Timestamp,
    /// The CloudEvents `type`, such as `redrive.run.giveup`.
    pub(super) kind: String,
    /// The unit or the pipeline run.
    pub(super) subject: String,
    data: Map<String, Value>,
}

impl CloudEvent {
    /// An event with the action and details of a journal entry, and more data.
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

    pub(super) fn of_run(record: &JournalRecord, run: &RunRecord) -> Self {
        let more = json!({
            "queue": run.queue,
            "category": run.category,
            "error_class": run.error_class,
            "error_message": run.error_message,
        });
        Self::of(record, Unit::Run(run.id).to_string(), more)
    }

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

    /// The journal entry of an item has all the data.
    pub(super) fn of_item(record: &JournalRecord, unit: &Unit) -> Self {
        Self::of(record, unit.to_string(), Value::Null)
    }

    /// The journal entry of a gate has all the data.
    pub(super) fn of_gate(record: &JournalRecord) -> Self {
        Self::of(record, record.entry.unit.clone().unwrap_or_default(), Value::Null)
    }

    /// The journal entry of a cause has all the data.
    pub(super) fn of_cause(record: &JournalRecord) -> Self {
        let details: Value = serde_json::from_str(&record.entry.details).unwrap_or_default();
        let cause = details.get("cause").and_then(Value::as_str).unwrap_or_default();
        Self::of(record, format!("cause:{cause}"), Value::Null)
    }

    pub(super) fn of_abort(record: &JournalRecord, run: &PipelineRunRecord) -> Self {
        Self::of(record, subject_of(run), counts_of(run))
    }

    /// The event of the last multiple of `every` that the dead letters passed; `None` if there are fewer.
    pub(super) fn of_dead_letters(
        run: &PipelineRunRecord,
        every: u64,
        at: Timestamp,
    ) -> Option<Self> {
        let passed = (run.progress.counts.dlq / every.max(1)).saturating_mul(every);
        let Value::Object(mut data) = counts_of(run) else { return None };
        data.insert("passed".to_owned(), passed.into());
        (passed > 0).then(|| Self {
            id: format!("dead-letters:{}:{passed}", run.id),
            at,
            kind: "redrive.pipeline.dead-letters".to_owned(),
            subject: subject_of(run),
            data,
        })
    }

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

fn counts_of(run: &PipelineRunRecord) -> Value {
    let tally = run.progress.counts;
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
