//! `redrive uploads reset`: the only way back for an item that was given up.
//!
//! Giving up is where people decide. So it is always asked about, and told in the journal.

use std::sync::Arc;

use clap::Args;
use redrive::{ItemEvent, ItemId, ItemStatus, Unit};
use redrive_store::{ItemFilter, ItemMove, ItemRecord, JournalEntry, Operator, Store, Written};
use serde::Serialize;
use serde_json::json;

use super::parse_id;
use crate::{
    confirm::confirm,
    context::{ChosenStore, Context, Missing},
    exit::{Exit, Failure},
    operator::operator,
    output::{Column, Row},
};

/// Items that are read or changed at once.
const BATCH: u32 = 1_000;

/// The arguments of `uploads reset`.
#[derive(Debug, Args)]
#[command(after_help = "\
An item goes back to pending, and is given up again only after as many attempts as the first time. Its
count of attempts goes on. Asks first; items that were not given up are left alone.
Exit codes: 0 all done; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive uploads reset 17 18 --reason 'tiles were repaired'
  redrive uploads reset --upload tiles --group flight-7 --dry-run
  redrive uploads reset --upload tiles --group flight-7 --yes")]
pub(crate) struct Arguments {
    /// The items
    #[arg(value_name = "ID", allow_negative_numbers = true, value_parser = parse_id,
          conflicts_with_all = ["upload", "group"])]
    ids: Vec<ItemId>,

    /// All that were given up in a group of this upload instead
    #[arg(long, value_name = "NAME", requires = "group")]
    upload: Option<String>,

    /// The group
    #[arg(long, value_name = "NAME", requires = "upload")]
    group: Option<String>,

    /// Why, for the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// What became of an item.
#[derive(Debug, Serialize)]
struct ResetRow {
    id: i64,
    name: Option<String>,
    outcome: &'static str,
    detail: String,
}

impl Row for ResetRow {
    const COLUMNS: &'static [Column] = &[
        Column::number("id"),
        Column::text("name"),
        Column::text("outcome"),
        Column::text("detail"),
    ];

    fn cells(&self) -> Vec<String> {
        let name = self.name.clone().unwrap_or_default();
        vec![self.id.to_string(), name, self.outcome.to_owned(), self.detail.clone()]
    }
}

/// Runs `uploads reset`.
pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<Exit, Failure> {
    if arguments.ids.is_empty() && arguments.group.is_none() {
        return Err(Failure::new(Exit::Refused, "no items are named; nothing was changed")
            .help("name them by id, or all of a group with --upload NAME --group NAME"));
    }
    let config = context.config()?;
    let chosen = context.store(config.as_ref())?;
    let store = chosen.open(config.as_ref(), Missing::Refuse).await?;
    let ids = select(&arguments, &store, &chosen).await?;
    if ids.is_empty() {
        let message = "no item of the group was given up; nothing was changed";
        return Err(Failure::new(Exit::Refused, message));
    }
    if !arguments.dry_run {
        let items = if ids.len() == 1 { "item" } else { "items" };
        confirm(&format!("Reset {} {items} in {}?", ids.len(), chosen.url), arguments.yes)?;
    }
    let by = operator(arguments.reason.clone());
    let mut rows = Vec::new();
    for ids in ids.chunks(BATCH as usize) {
        let reset = reset(ids, &*store, &by, arguments.dry_run).await;
        rows.extend(reset.map_err(|error| chosen.failure(error))?);
    }
    let done = rows.iter().filter(|row| row.outcome.ends_with("reset")).count();
    let exit = match (done, rows.len() - done) {
        (_, 0) => Exit::Ok,
        (0, _) => Exit::Error,
        _ => Exit::Partial,
    };
    context.output.list(rows)?;
    Ok(exit)
}

/// The items that are meant, each once.
async fn select(
    arguments: &Arguments,
    store: &Arc<dyn Store>,
    chosen: &ChosenStore,
) -> Result<Vec<ItemId>, Failure> {
    let mut ids = arguments.ids.clone();
    if arguments.group.is_some() {
        let filter = ItemFilter {
            upload: arguments.upload.clone(),
            group: arguments.group.clone(),
            status: Some(ItemStatus::UploadGiveup),
        };
        let mut after = ItemId(0);
        loop {
            let page = store.items_page(&filter, after, BATCH).await;
            let page = page.map_err(|error| chosen.failure(error))?;
            let Some(last) = page.last() else { break };
            after = last.id;
            ids.extend(page.iter().map(|item| item.id));
        }
    }
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}

async fn reset(
    ids: &[ItemId],
    store: &dyn Store,
    by: &Operator,
    dry_run: bool,
) -> redrive_store::Result<Vec<ResetRow>> {
    let items = store.items_by_id(ids).await?;
    let (given_up, others): (Vec<&ItemRecord>, Vec<&ItemRecord>) =
        items.iter().partition(|item| item.status == ItemStatus::UploadGiveup);
    let written = if dry_run {
        vec![Written::Applied; given_up.len()]
    } else {
        let moves: Vec<ItemMove> = given_up.iter().map(|item| reset_move(item, by)).collect();
        store.move_items(&moves).await?
    };
    let mut rows: Vec<ResetRow> = given_up
        .iter()
        .zip(written)
        .map(|(item, written)| match written {
            Written::Applied => {
                let outcome = if dry_run { "would be reset" } else { "reset" };
                let detail = format!("after {} attempts", item.upload_attempts);
                ResetRow { id: item.id.0, name: Some(item.name.clone()), outcome, detail }
            }
            Written::Stale => left_alone(item, "it has changed meanwhile".to_owned()),
        })
        .collect();
    rows.extend(others.iter().map(|item| left_alone(item, format!("it is {}", item.status))));
    let unknown = ids.iter().filter(|id| items.iter().all(|item| item.id != **id));
    rows.extend(unknown.map(|id| ResetRow {
        id: id.0,
        name: None,
        outcome: "left alone",
        detail: "there is no such item".to_owned(),
    }));
    rows.sort_unstable_by_key(|row| row.id);
    Ok(rows)
}

fn left_alone(item: &ItemRecord, detail: String) -> ResetRow {
    ResetRow { id: item.id.0, name: Some(item.name.clone()), outcome: "left alone", detail }
}

fn reset_move(item: &ItemRecord, by: &Operator) -> ItemMove {
    let details = json!({ "attempts": item.upload_attempts, "reason": by.reason });
    ItemMove {
        id: item.id,
        event: ItemEvent::Reset,
        rejection_reason: None,
        at: by.at,
        attempt: None,
        journal: Some(JournalEntry {
            at: by.at,
            actor: by.actor.clone(),
            action: "upload.reset".to_owned(),
            unit: Some(Unit::Item(item.id).to_string()),
            filter: None,
            details: details.to_string(),
            dedupe_key: None,
        }),
    }
}
