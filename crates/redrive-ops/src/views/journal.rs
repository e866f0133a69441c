//! The view of a journal entry.

use redrive_store::JournalRecord;
use serde::Serialize;
use serde_json::Value;

use crate::words::json;

/// A journal entry.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JournalView {
    pub id: i64,
    pub at: String,
    /// The operator or worker.
    pub actor: String,
    /// Such as `partition.retry`.
    pub action: String,
    /// The unit, such as `run:17`.
    pub unit: Option<String>,
    /// The filter of an action on many units.
    pub filter: Option<Value>,
    /// Any JSON.
    pub details: Value,
}

impl From<JournalRecord> for JournalView {
    fn from(JournalRecord { id, entry }: JournalRecord) -> Self {
        Self {
            id,
            at: entry.at.to_string(),
            actor: entry.actor,
            action: entry.action,
            unit: entry.unit,
            filter: entry.filter.as_deref().map(json),
            details: json(&entry.details),
        }
    }
}

impl JournalView {
    /// One line: the command, if the entry has one, and the reason.
    pub fn in_words(&self) -> String {
        let text = |name| self.details.get(name).and_then(Value::as_str);
        let flags = self.details.get("flags").and_then(Value::as_array);
        let flags = flags.into_iter().flatten().filter_map(Value::as_str);
        let command: Vec<&str> = text("command").into_iter().chain(flags).collect();
        if command.is_empty() {
            return self.details.to_string();
        }
        let reason = text("reason").map(|reason| format!("({reason})"));
        let parts: Vec<String> = [command.join(" ")].into_iter().chain(reason).collect();
        parts.join(" ")
    }
}
