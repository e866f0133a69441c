//! Explains an item of an upload.

use redrive_core::{AttemptNumber, ItemId, ItemStatus, Unit};
use redrive_engine::is_content_at_fault;
use redrive_store::{
    AttemptOutcome, AttemptRecord, ItemGroup, ItemRecord, JournalRecord, MAX_PAGE, Result,
    UnitKind, UnitRow,
};
use serde::Serialize;
use serde_json::Value;

use super::{Next, journal::read_journal};
use crate::{
    Declarations, Ops,
    views::{AttemptView, JournalView},
};

/// The explanation of an item.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ItemExplanation {
    /// The unit, as `item:ID`.
    pub unit: String,
    pub item: ItemRecord,
    /// Each attempt with the rule behind its result.
    pub attempts: Vec<AttemptView>,
    pub journal: Vec<JournalView>,
    pub next: Next,
}

impl ItemExplanation {
    pub(super) async fn read(id: ItemId, ops: &Ops) -> Result<Option<Self>> {
        let store = ops.store();
        let unit = Unit::Item(id).to_string();
        let Some(item) = store.items_by_id(&[id]).await?.into_iter().next() else {
            return Ok(None);
        };
        let row = UnitRow::new(UnitKind::Item, id.0);
        let attempts = store.attempts_of(&row, AttemptNumber(0), MAX_PAGE).await?;
        let journal = read_journal(&unit, &**store).await?;
        let mut because = because(&item, &attempts, ops.declared());
        let ItemGroup { upload, group } = &item.group;
        if item.status == ItemStatus::Pending
            && let Some(gate) = ops.gate_before(UnitKind::Item, upload, group).await?
        {
            because = format!("{because}; but {gate}");
        }
        let next = Next::new(item.status.name(), None, because);
        let attempts = explain_attempts(&attempts, &journal);
        let journal = journal.into_iter().map(JournalView::from).collect();
        Ok(Some(Self { unit, item, attempts, journal, next }))
    }
}

/// The ledger row of a rejection is written before the item is given up, so it says `retrying`; the journal decides.
fn explain_attempts(attempts: &[AttemptRecord], journal: &[JournalRecord]) -> Vec<AttemptView> {
    let mut give_ups = journal.iter().filter(|row| row.entry.action == "upload.giveup").peekable();
    let mut rows = Vec::new();
    for (index, attempt) in attempts.iter().enumerate() {
        let next_start = attempts.get(index + 1).map(|next| next.started_at);
        let gave_up = give_ups.next_if(|row| next_start.is_none_or(|start| row.entry.at <= start));
        let rule = match (attempt.outcome, gave_up) {
            (AttemptOutcome::Success, _) => "acknowledged: the item is uploaded".to_owned(),
            (_, None) => {
                "rejected: the item stays pending, and the next call sends it again".to_owned()
            }
            (_, Some(row)) => format!("rejected, and given up: {}", given_up(row)),
        };
        let mut row = AttemptView::from(attempt).with_rule(rule);
        if gave_up.is_some() {
            row.outcome = AttemptOutcome::Failed.name();
        }
        rows.push(row);
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

fn because(
    item: &ItemRecord,
    attempts: &[AttemptRecord],
    declared: Option<&Declarations>,
) -> String {
    let ItemGroup { upload, group } = &item.group;
    match item.status {
        ItemStatus::Pending => {
            let known = declared.and_then(|declared| declared.upload(upload));
            let spent = item.upload_attempts.saturating_sub(item.attempts_at_reset);
            let left = match (known, known.and_then(|upload| upload.max_attempts)) {
                (Some(_), Some(most)) => {
                    format!("; the item has {spent} of {most} rejections")
                }
                (None, _) if declared.is_some() => {
                    format!("; but the configuration declares no upload {upload:?}")
                }
                _ => String::new(),
            };
            format!("`redrive uploads run --upload {upload} --group {group}` sends the item{left}")
        }
        ItemStatus::Uploaded => "nothing: the receiver acknowledged the item".to_owned(),
        ItemStatus::Trusted => "nothing: the receiver vouches for the item".to_owned(),
        ItemStatus::Rejected => "nothing: the receiver rejected the item permanently".to_owned(),
        ItemStatus::UploadGiveup => {
            let last =
                attempts.last().and_then(|it| Some((it.class.as_deref()?, it.code.as_deref()?)));
            let repair = match last.is_some_and(|(class, code)| is_content_at_fault(class, code)) {
                true => "; `redrive uploads replace` gives it repaired content",
                false => "",
            };
            format!(
                "nothing: the attempts are exhausted; `redrive uploads reset {}` makes the item pending{repair}",
                item.id
            )
        }
    }
}
