//! Selections in words: `queue orders, cause 47dec774 503: the warehouse is closed`.

use std::collections::HashMap;

use jiff::Timestamp;
use redrive_core::summary;
use redrive_store::{CauseFilter, Result, SelectionTerm, Store};
use serde_json::{Map, Value};

/// The longest message of a cause.
const MESSAGE_CHARS: usize = 80;

/// Puts selections into words, and reads each cause once.
pub(super) struct SelectionWords<'a> {
    store: &'a dyn Store,
    now: Timestamp,
    causes: HashMap<String, String>,
}

impl<'a> SelectionWords<'a> {
    pub(super) fn new(store: &'a dyn Store, now: Timestamp) -> Self {
        Self { store, now, causes: HashMap::new() }
    }

    /// `selection` is in the form of [`Selection::to_json`](redrive_store::Selection::to_json). Empty if all is selected.
    pub(super) async fn of(&mut self, selection: &Value) -> Result<String> {
        let Some(terms) = selection.as_object() else { return Ok(String::new()) };
        let given = |term: &SelectionTerm| in_words(term.name(), terms.get(term.name())?.as_str()?);
        let mut parts: Vec<String> = SelectionTerm::FIELDS.iter().filter_map(given).collect();
        parts.extend(days(terms));
        parts.extend(state(terms));
        if let Some(cause) = terms.get("cause").and_then(Value::as_str) {
            parts.push(self.cause(cause).await?);
        }
        Ok(parts.join(", "))
    }

    async fn cause(&mut self, fingerprint: &str) -> Result<String> {
        if let Some(words) = self.causes.get(fingerprint) {
            return Ok(words.clone());
        }
        let filter = CauseFilter {
            kind: None,
            fingerprint: Some(fingerprint.to_owned()),
            since: Timestamp::UNIX_EPOCH,
            hours_since: self.now,
            limit: 1,
        };
        let short = fingerprint.get(..8).unwrap_or(fingerprint);
        let words = match self.store.causes(&filter).await?.pop() {
            Some(cause) => {
                let message: String = summary(&cause.message).chars().take(MESSAGE_CHARS).collect();
                format!("cause {short} {}: {message}", cause.code)
            }
            None => format!("cause {short}"),
        };
        self.causes.insert(fingerprint.to_owned(), words.clone());
        Ok(words)
    }
}

/// A term that stands alone.
fn in_words(name: &str, value: &str) -> Option<String> {
    Some(match name {
        "since" | "until" | "cause" => return None,
        "customer_id" => format!("customer {value}"),
        "query_name" => format!("query {value}"),
        "run" => format!("pipeline run {value}"),
        "error" => format!("error “{value}”"),
        "failed_since" => format!("failed since {value}"),
        "failed_until" => format!("failed before {value}"),
        _ => format!("{name} {value}"),
    })
}

fn days(terms: &Map<String, Value>) -> Option<String> {
    let day = |name| terms.get(name).and_then(Value::as_str);
    Some(match (day("since"), day("until")) {
        (Some(first), Some(last)) if first == last => first.to_owned(),
        (Some(first), Some(last)) => format!("{first} to {last}"),
        (Some(first), None) => format!("from {first}"),
        (None, Some(last)) => format!("until {last}"),
        (None, None) => return None,
    })
}

fn state(terms: &Map<String, Value>) -> Option<String> {
    let status = terms.get("status").and_then(Value::as_str)?;
    Some(match (status, terms.get("waiting").and_then(Value::as_bool)) {
        (_, Some(true)) => "waiting".to_owned(),
        ("failed", Some(false)) => "terminal".to_owned(),
        (_, Some(false)) | ("upload_giveup", None) => "given up".to_owned(),
        ("dlq", None) => return None,
        (status, None) => status.replace('_', " "),
    })
}

#[cfg(test)]
mod tests {
    use redrive_sqlite::{Location, SqliteOptions, SqliteStore};
    use serde_json::json;

    use super::*;

    // PLN-1
    #[tokio::test]
    async fn a_selection_is_put_into_words() {
        let now = Timestamp::UNIX_EPOCH;
        let store = SqliteStore::open(Location::Memory, SqliteOptions::default(), now).unwrap();
        let mut words = SelectionWords::new(&store, now);
        for (selection, expected) in [
            (json!({}), ""),
            (json!({ "queue": "orders", "error": "no stock" }), "queue orders, error “no stock”"),
            (
                json!({ "source": "ads", "since": "2026-01-01", "until": "2026-04-30" }),
                "source ads, 2026-01-01 to 2026-04-30",
            ),
            (json!({ "since": "2026-01-01", "until": "2026-01-01" }), "2026-01-01"),
            (json!({ "status": "failed", "waiting": false }), "terminal"),
            (json!({ "status": "dlq", "pipeline": "flour" }), "pipeline flour"),
            (json!({ "cause": "0123456789abcdef" }), "cause 01234567"),
        ] {
            assert_eq!(words.of(&selection).await.unwrap(), expected, "{selection}");
        }
    }
}
