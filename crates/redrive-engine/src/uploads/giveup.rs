//! Counts rejections, and gives up items whose attempts are spent.

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;
use redrive_core::{Failure, GiveUpReason, ItemEvent, ItemId, Unit};
use redrive_store::{Error, ItemMove, ItemRecord, JournalEntry, Result, Store, Written};
use serde_json::json;
use tokio::task::JoinSet;

use crate::uploads::{RetrySettings, is_content_at_fault};

/// How many items are counted together, to share a commit.
const COUNTED_AT_ONCE: usize = 256;

pub(super) struct GivenUp {
    pub(super) item: ItemRecord,
    pub(super) attempts: u32,
    pub(super) failure: Failure,
}

pub(super) async fn count_rejections(
    store: &Arc<dyn Store>,
    settings: &RetrySettings,
    rejected: &[(ItemId, &Failure)],
    actor: &str,
    now: Timestamp,
) -> Result<Vec<GivenUp>> {
    let mut given_up = Vec::new();
    for rejected in rejected.chunks(COUNTED_AT_ONCE) {
        let counts = count(store, rejected).await?;
        redrive_store::failpoint!("engine.upload.counted");
        let ids: Vec<ItemId> = rejected.iter().map(|(id, _)| *id).collect();
        let items = store.items_by_id(&ids).await?;
        let mut items: HashMap<ItemId, ItemRecord> =
            items.into_iter().map(|item| (item.id, item)).collect();
        let (mut moves, mut spent) = (Vec::new(), Vec::new());
        for (id, failure) in rejected {
            let (Some(attempts), Some(item)) = (counts.get(id), items.remove(id)) else { continue };
            if let Some(reason) = settings.gives_up(&item, *attempts, failure, now) {
                moves.push(give_up(&item, *attempts, failure, reason, actor, now));
                spent.push(GivenUp { item, attempts: *attempts, failure: (*failure).clone() });
            }
        }
        if moves.is_empty() {
            continue;
        }
        let written = store.move_items(&moves).await?;
        redrive_store::failpoint!("engine.upload.given_up");
        for (spent, written) in spent.into_iter().zip(written) {
            // Another process may have moved the item meanwhile.
            if written == Written::Applied {
                log_giveup(&spent);
                given_up.push(spent);
            }
        }
    }
    Ok(given_up)
}

async fn count(
    store: &Arc<dyn Store>,
    rejected: &[(ItemId, &Failure)],
) -> Result<HashMap<ItemId, u32>> {
    let mut counting = JoinSet::new();
    for (id, _) in rejected {
        let (store, id) = (store.clone(), *id);
        counting.spawn(async move { (id, store.increment_upload_attempts(id).await) });
    }
    let mut counts = HashMap::with_capacity(rejected.len());
    while let Some(counted) = counting.join_next().await {
        let (id, count) = counted.map_err(|error| Error::Unavailable {
            doing: "counting an upload attempt".to_owned(),
            source: error.into(),
        })?;
        match count? {
            Some(count) => _ = counts.insert(id, count),
            None => tracing::warn!(
                item = id.0,
                "a rejection is not counted: the item is not pending any more"
            ),
        }
    }
    Ok(counts)
}

/// The state and the journal entry are written in one transaction, once.
fn give_up(
    item: &ItemRecord,
    attempts: u32,
    failure: &Failure,
    reason: GiveUpReason,
    actor: &str,
    now: Timestamp,
) -> ItemMove {
    let unit = Unit::Item(item.id).to_string();
    let details = json!({
        "item": item.id.0,
        "attempts": attempts,
        "last_rejection_reason": failure.message().as_str(),
        "reason": reason.name(),
        "upload": item.group.upload,
        "group": item.group.group,
        "name": item.name,
    });
    ItemMove {
        rejection_reason: Some(failure.message().clone()),
        journal: Some(JournalEntry {
            at: now,
            actor: actor.to_owned(),
            action: "upload.giveup".to_owned(),
            dedupe_key: Some(format!("giveup:{unit}:{attempts}")),
            unit: Some(unit),
            filter: None,
            details: details.to_string(),
        }),
        ..ItemMove::new(item.id, ItemEvent::GiveUp, now)
    }
}

fn log_giveup(spent: &GivenUp) {
    let (class, code) = (spent.failure.class().name(), spent.failure.code().to_string());
    let remedy = match is_content_at_fault(class, &code) {
        true => {
            "`redrive uploads replace` sends repaired content, `redrive uploads reset` the same content"
        }
        false => "`redrive uploads reset` brings it back",
    };
    tracing::error!(
        item = spent.item.id.0,
        name = spent.item.name,
        attempts = spent.attempts,
        last_rejection_reason = spent.failure.message().as_str(),
        "gave up on an item; {remedy}"
    );
}
