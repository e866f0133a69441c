//! An entry of the journal.

use redrive_store::JournalRecord;
use serde::Serialize;
use serde_json::Value;

use crate::words::json;

/// What somebody did.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JournalView {
    /// Its number.
    pub id: i64,
    /// When.
    pub at: String,
    /// Who.
    pub actor: String,
    /// What, such as `partition.retry`.
    pub action: String,
    /// To which unit.
    pub unit: Option<String>,
    /// Or to all that match.
    pub filter: Option<Value>,
    /// All there is to say besides: any JSON.
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
    /// What was done, in a line: the command, where there was one, and the reason.
    pub fn in_words(&self) -> String {
        let text = |name| self.details.get(name).and_then(Value::as_str);
        let flags = self.details.get("flags").and_then(Value::as_array);
        let flags = flags.into_iter().flatten().filter_map(Value::as_str);
        let command: Vec<&str> = text("command").into_iter().chain(flags).collect();
        if command.is_empty() {
            return self.details.to_string();
        }
        let reason = text("reason").map(|reason| format!("({reason})"));
        let told: Vec<String> = [command.join(" ")].into_iter().chain(reason).collect();
        told.join(" ")
    }
}
