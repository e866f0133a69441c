//! The journal of one unit.
//!
//! The entry of an edit has the old data, of up to megabytes, and a unit can be edited often. An explanation needs the start
//! of such values.

use redrive_store::{JournalFilter, JournalRecord, MAX_PAGE, PageLimit, Result, Store};
use serde_json::Value;

/// Values of the details that are longer, as JSON, are shortened.
const MAX_VALUE_BYTES: usize = 2_000;
const SHORTENED_CHARS: usize = 500;

/// The first [`MAX_PAGE`] entries about a unit.
pub(super) async fn read_journal(unit: &str, store: &dyn Store) -> Result<Vec<JournalRecord>> {
    let filter = JournalFilter { unit: Some(unit.to_owned()), action: None };
    let mut journal: Vec<JournalRecord> = Vec::new();
    loop {
        let after = journal.last().map_or(0, |last| last.id);
        let limit = MAX_PAGE.saturating_sub(u32::try_from(journal.len()).unwrap_or(MAX_PAGE));
        if limit == 0 {
            return Ok(journal);
        }
        let mut page = store.journal_page(&filter, after, limit).await?;
        let goes_on = PageLimit::from(limit).is_reached(&page);
        page.iter_mut().for_each(|row| shorten_details(&mut row.entry.details));
        journal.extend(page);
        if !goes_on {
            return Ok(journal);
        }
    }
}

fn shorten_details(details: &mut String) {
    if details.len() <= MAX_VALUE_BYTES {
        return;
    }
    let mut value: Value = serde_json::from_str(details).unwrap_or_default();
    match &mut value {
        Value::Object(members) => members.values_mut().for_each(shorten),
        other => shorten(other),
    }
    *details = value.to_string();
}

fn shorten(value: &mut Value) {
    let text = value.to_string();
    if text.len() > MAX_VALUE_BYTES {
        let start: String = text.chars().take(SHORTENED_CHARS).collect();
        *value = format!("{start}… ({} bytes)", text.len()).into();
    }
}
