//! Items of uploads.

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{ItemEvent, ItemId, ItemStatus, Message};
use redrive_store::{
    AddedItem, Error, ItemGroup, ItemMove, ItemRecord, Items, NewItem, Result, Written,
};
use rusqlite::{Connection, OptionalExtension, params};

use crate::{
    SqliteStore,
    columns::{Columns, micros, read_rows},
    error::Doing,
    journal::insert_journal,
    queries,
};

#[async_trait]
impl Items for SqliteStore {
    async fn add_items(&self, items: &[NewItem], now: Timestamp) -> Result<Vec<AddedItem>> {
        let items = items.to_vec();
        self.write(move |connection| items.iter().map(|item| add(connection, item, now)).collect())
            .await
    }

    async fn items_by_id(&self, ids: &[ItemId]) -> Result<Vec<ItemRecord>> {
        let ids = serde_json::Value::from_iter(ids.iter().map(|id| id.0)).to_string();
        self.read(move |connection| {
            read_rows(connection, "reading items", queries::ITEMS_BY_ID, [ids], read_item)
        })
        .await
    }

    async fn pending_items(
        &self,
        group: &ItemGroup,
        after: ItemId,
        limit: u32,
    ) -> Result<Vec<ItemRecord>> {
        let ItemGroup { upload, group } = group.clone();
        self.read(move |connection| {
            let params = params![upload, group, after.0, limit];
            read_rows(connection, "listing items", queries::PENDING_ITEMS, params, read_item)
        })
        .await
    }

    async fn increment_upload_attempts(&self, id: ItemId) -> Result<Option<u32>> {
        const DOING: &str = "counting an upload attempt";
        self.write(move |connection| {
            connection
                .prepare_cached(queries::INCREMENT_UPLOAD_ATTEMPTS)
                .doing(DOING)?
                .query_row([id.0], |row| row.get(0))
                .optional()
                .doing(DOING)
        })
        .await
    }

    async fn move_items(&self, moves: &[ItemMove]) -> Result<Vec<Written>> {
        let moves = moves.to_vec();
        self.write(move |connection| moves.iter().map(|step| move_one(connection, step)).collect())
            .await
    }
}

fn add(connection: &Connection, item: &NewItem, now: Timestamp) -> Result<AddedItem> {
    const DOING: &str = "adding items";
    item.check()?;
    let ItemGroup { upload, group } = &item.group;
    let size = i64::try_from(item.size_bytes)
        .map_err(|_| Error::misuse(DOING, "an item is larger than a file can be"))?;
    let id: Option<i64> = connection
        .prepare_cached(queries::INSERT_ITEMS)
        .doing(DOING)?
        .query_row(
            params![upload, group, item.name, item.content_url, size, item.sha256, micros(now)],
            |row| row.get(0),
        )
        .optional()
        .doing(DOING)?;
    if let Some(id) = id {
        return Ok(AddedItem::Accepted(ItemId(id)));
    }
    let (id, sha256): (i64, String) = connection
        .prepare_cached(queries::NAMED_ITEMS)
        .doing(DOING)?
        .query_row(params![upload, group, item.name], |row| Ok((row.get(0)?, row.get(1)?)))
        .doing(DOING)?;
    Ok(if sha256 == item.sha256 {
        AddedItem::Duplicate(ItemId(id))
    } else {
        AddedItem::Conflict(ItemId(id))
    })
}

fn move_one(connection: &Connection, step: &ItemMove) -> Result<Written> {
    const DOING: &str = "moving items";
    let (from, to) = step.from_to()?;
    let changed = connection
        .prepare_cached(queries::MOVE_ITEMS)
        .doing(DOING)?
        .execute(params![
            step.id.0,
            from.name(),
            to.name(),
            micros(step.at),
            step.rejection_reason.as_ref().map(Message::as_str),
            step.event == ItemEvent::Reset,
        ])
        .doing(DOING)?;
    if changed > 0
        && let Some(entry) = &step.journal
    {
        insert_journal(connection, entry)?;
    }
    Ok(Written::from_changed(changed > 0))
}

fn read_item(row: &mut Columns<'_>) -> Result<ItemRecord> {
    Ok(ItemRecord {
        id: ItemId(row.get()?),
        group: ItemGroup { upload: row.get()?, group: row.get()? },
        name: row.get()?,
        content_url: row.get()?,
        size_bytes: row.get()?,
        sha256: row.get()?,
        status: row.named("status", ItemStatus::from_name)?,
        upload_attempts: row.get()?,
        attempts_at_reset: row.get()?,
        rejection_reason: row.get()?,
        updated_at: row.timestamp()?,
    })
}
