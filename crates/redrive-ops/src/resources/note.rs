//! An operator's remark on any unit. It stands in the journal of the unit, which `why` and the pages show.

use std::collections::HashMap;

use redrive_store::{JournalEntry, MAX_NOTE_CHARS, Result, operator_text};
use serde_json::json;

use super::{ChangeRequest, ChangeResult, Changeable, UnitChange};
use crate::Ops;

/// Rows by id may have data of up to a megabyte each.
const NOTE_BATCH: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note(String);

impl Note {
    /// An error says what is wrong with the text.
    pub fn new(text: &str) -> std::result::Result<Self, String> {
        let text =
            operator_text("note", text, MAX_NOTE_CHARS).map_err(|error| error.to_string())?;
        if text.is_empty() { Err("the text is empty".to_owned()) } else { Ok(Self(text)) }
    }
}

pub(super) const NOTE_HELP: &str = "\
`redrive why UNIT` shows the remarks. Filters select all {noun}s that match. Asks for confirmation before more than 20.
Exit codes: 0 all noted; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive {command} note {unit} --text 'the customer was told'
  redrive {command} note --cause 68af3934cc71cda7 --text 'see OPS-7' --yes";

impl Ops {
    pub(super) async fn note_units<R: Changeable>(
        &self,
        note: &Note,
        request: &ChangeRequest<'_>,
        ids: &[R::Id],
        report: &mut (dyn FnMut(Vec<UnitChange>) + Send),
    ) -> Result<()> {
        for batch in ids.chunks(NOTE_BATCH) {
            let rows = R::by_id(self, batch).await?.into_iter().filter(R::exists);
            let rows: HashMap<String, R> = rows.map(|row| (row.id().to_string(), row)).collect();
            if !request.dry_run {
                let entries: Vec<JournalEntry> =
                    rows.values().map(|row| entry(row, note, request)).collect();
                self.store().append_journal(&entries).await?;
            }
            let change = |id: &R::Id| match rows.get(&id.to_string()) {
                Some(row) => UnitChange::new(row.unit_of(), ChangeResult::done(request.dry_run)),
                None => UnitChange::unknown(R::unit(id), R::NOUN),
            };
            report(batch.iter().map(change).collect());
        }
        Ok(())
    }
}

fn entry<R: Changeable>(row: &R, note: &Note, request: &ChangeRequest<'_>) -> JournalEntry {
    let by = request.by.cleaned();
    JournalEntry {
        at: by.at,
        actor: by.actor,
        action: format!("{}.note", R::NOUN),
        unit: Some(row.unit_of().to_string()),
        filter: None,
        details: json!({ "note": note.0, "reason": by.reason }).to_string(),
        dedupe_key: None,
    }
}
