//! All there is to tell of an item of an upload.

use redrive::{AttemptNumber, ItemGroup, ItemId, ItemStatus, Unit, config::Config};
use redrive_store::{
    AttemptOutcome, AttemptRecord, ItemRecord, JournalFilter, JournalRecord, MAX_PAGE, Result,
    Store, UnitKind, UnitRow,
};
use serde::Serialize;
use serde_json::Value;

use super::story::{AttemptRow, JournalRow};
use crate::{
    commands::uploads::ItemRow,
    context::Context,
    exit::Failure,
    output::{Column, Row},
};

/// An item's story.
#[derive(Debug, Serialize)]
pub(super) struct ItemStory {
    unit: String,
    item: ItemRow,
    attempts: Vec<AttemptRow>,
    journal: Vec<JournalRow>,
    next: Next,
}

/// What comes next.
#[derive(Debug, Serialize)]
struct Next {
    state: &'static str,
    because: String,
}

impl ItemStory {
    /// Reads it; `None` if there is no such item.
    pub(super) async fn read(
        id: ItemId,
        store: &dyn Store,
        config: Option<&Config>,
    ) -> Result<Option<Self>> {
        let unit = Unit::Item(id).to_string();
        let Some(item) = store.items_by_id(&[id]).await?.into_iter().next() else {
            return Ok(None);
        };
        let row = UnitRow::new(UnitKind::Item, id.0);
        let attempts = store.attempts_of(&row, AttemptNumber(0), MAX_PAGE).await?;
        let filter = JournalFilter { unit: Some(unit.clone()), action: None };
        let journal = store.journal_page(&filter, 0, MAX_PAGE).await?;
        let attempts = told(&attempts, &journal);
        let next = Next { state: item.status.name(), because: because(&item, config) };
        let journal = journal.into_iter().map(JournalRow::from).collect();
        Ok(Some(Self { unit, item: item.into(), attempts, journal, next }))
    }

    /// Prints it: an object, or one part below the other.
    pub(super) fn print(&self, context: &Context) -> std::result::Result<(), Failure> {
        let output = context.output;
        if !output.is_table() {
            return output.record(self);
        }
        output.record(&self.item)?;
        output.remark_list("attempts", &self.attempts)?;
        output.remark_list("journal", &self.journal)?;
        output.remark(&format!("next: {}", self.next.because))
    }
}

impl Row for ItemStory {
    const COLUMNS: &'static [Column] = ItemRow::COLUMNS;

    fn cells(&self) -> Vec<String> {
        self.item.cells()
    }
}

/// Each attempt with what followed from it.
fn told(attempts: &[AttemptRecord], journal: &[JournalRecord]) -> Vec<AttemptRow> {
    let mut give_ups = journal.iter().filter(|row| row.entry.action == "upload.giveup").peekable();
    let mut rows = Vec::new();
    for (place, attempt) in attempts.iter().enumerate() {
        let next_began = attempts.get(place + 1).map(|next| next.started_at);
        let gave_up = give_ups.next_if(|row| next_began.is_none_or(|began| row.entry.at <= began));
        let rule = match (attempt.outcome, gave_up) {
            (AttemptOutcome::Success, _) => "acknowledged: it is uploaded".to_owned(),
            (_, None) => "rejected: it stays pending, and the next call sends it again".to_owned(),
            (_, Some(row)) => format!("rejected, and given up: {}", given_up(row)),
        };
        rows.push(AttemptRow::new(attempt, rule));
    }
    rows
}

fn given_up(row: &JournalRecord) -> String {
    let details: Value = serde_json::from_str(&row.entry.details).unwrap_or_default();
    let reason = details.get("reason").and_then(Value::as_str).unwrap_or("given up");
    match details.get("attempts").and_then(Value::as_u64) {
        Some(attempts) => format!("{reason} at {attempts} attempts"),
        None => reason.to_owned(),
    }
}

fn because(item: &ItemRecord, config: Option<&Config>) -> String {
    let ItemGroup { upload, group } = &item.group;
    match item.status {
        ItemStatus::Pending => {
            let declared = config.and_then(|config| config.upload(upload));
            let spent = item.upload_attempts.saturating_sub(item.attempts_at_reset);
            let most = declared.and_then(|upload| upload.policy.spec().max_attempts);
            let left = match (most, config.is_some(), declared) {
                (Some(most), _, Some(upload)) if !upload.disable_retry => {
                    format!("; it is given up at {most} rejections and has {spent} so far")
                }
                (_, true, None) => {
                    format!("; but the configuration declares no upload {upload:?}")
                }
                _ => String::new(),
            };
            format!("`redrive uploads run --upload {upload} --group {group}` sends it{left}")
        }
        ItemStatus::Uploaded => "nothing: it was acknowledged".to_owned(),
        ItemStatus::Trusted => "nothing: the receiver vouches for it".to_owned(),
        ItemStatus::Rejected => "nothing: the receiver refused it for good".to_owned(),
        ItemStatus::UploadGiveup => {
            format!(
                "nothing: its attempts are spent; `redrive uploads reset {}` brings it back",
                item.id
            )
        }
    }
}
