//! Implements [`Items`].

use async_trait::async_trait;
use redrive_core::{AttemptNumber, Epoch, ItemId, ItemStatus, Message};
use redrive_store::{
    AddedItem, ClaimedGroup, Error, GroupClaim, ItemCounts, ItemFilter, ItemGroup, ItemMove,
    ItemRecord, Items, JournalEntry, LeaseRef, NewItem, Operator, Result, WorkerId, Written,
};
use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

use crate::{
    SqliteStore,
    columns::{SqliteRow, micros, read_rows},
    error::Doing,
    journal::insert_journal,
    ledger::LedgerRows,
    queries,
};

#[async_trait]
impl Items for SqliteStore {
    async fn add_items(&self, items: &[NewItem], by: &Operator) -> Result<Vec<AddedItem>> {
        let (items, by) = (items.to_vec(), by.cleaned());
        let added = self
            .write(move |connection| items.iter().map(|item| add(connection, item, &by)).collect())
            .await?;
        redrive_store::failpoint!("sqlite.add_items.committed");
        Ok(added)
    }

    async fn items_by_id(&self, ids: &[ItemId]) -> Result<Vec<ItemRecord>> {
        let ids = serde_json::Value::from_iter(ids.iter().map(|id| id.0)).to_string();
        self.read(move |connection| {
            read_rows(connection, "reading items", queries::ITEMS_BY_ID, [&ids], read_item)
        })
        .await
    }

    async fn items_page(
        &self,
        filter: &ItemFilter,
        after: ItemId,
        limit: u32,
    ) -> Result<Vec<ItemRecord>> {
        let ItemFilter { upload, group, status } = filter.clone();
        self.read(move |connection| {
            let params = params![after.0, upload, group, status.map(ItemStatus::name), limit];
            read_rows(connection, "listing items", queries::ITEMS_PAGE, params, read_item)
        })
        .await
    }

    async fn item_counts(&self, group: &ItemGroup) -> Result<ItemCounts> {
        let ItemGroup { upload, group } = group.clone();
        self.read(move |connection| {
            let (params, mut counts) = (params![upload, group], ItemCounts::default());
            let rows =
                read_rows(connection, "counting items", queries::ITEM_COUNTS, params, |row| {
                    Ok((row.named("status", ItemStatus::from_name)?, row.get()?))
                })?;
            rows.into_iter().for_each(|(status, count)| counts.add(status, count));
            Ok(counts)
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
        let written = self
            .write(move |connection| {
                let mut mover = Mover::new(connection)?;
                moves.iter().map(|step| mover.apply(step)).collect()
            })
            .await?;
        redrive_store::failpoint!("sqlite.move_items.committed");
        Ok(written)
    }

    async fn drop_items(&self, drops: &[(ItemId, JournalEntry)]) -> Result<Vec<Written>> {
        let drops = drops.to_vec();
        self.write(move |connection| {
            drops.iter().map(|(id, entry)| drop_one(connection, *id, entry)).collect()
        })
        .await
    }

    async fn claim_group(&self, claim: &GroupClaim) -> Result<ClaimedGroup> {
        let claim = claim.clone();
        let claimed = self.write(move |connection| claim_one(connection, &claim)).await?;
        redrive_store::failpoint!("sqlite.claim_group.committed");
        Ok(claimed)
    }
}

fn add(connection: &Connection, item: &NewItem, by: &Operator) -> Result<AddedItem> {
    const DOING: &str = "adding items";
    item.check()?;
    let ItemGroup { upload, group } = &item.group;
    let size = size(item.size_bytes)?;
    let id: Option<i64> = connection
        .prepare_cached(queries::INSERT_ITEMS)
        .doing(DOING)?
        .query_row(
            params![upload, group, item.name, item.content_url, size, item.sha256, micros(by.at)],
            |row| row.get(0),
        )
        .optional()
        .doing(DOING)?;
    if let Some(id) = id.map(ItemId) {
        redrive_store::failpoint!("sqlite.add_items.row");
        insert_journal(connection, &item.journal_entry(id, by))?;
        return Ok(AddedItem::Accepted(id));
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

fn size(bytes: u64) -> Result<i64> {
    i64::try_from(bytes)
        .map_err(|_| Error::misuse("writing items", "an item is larger than a file can be"))
}

fn drop_one(connection: &Connection, id: ItemId, entry: &JournalEntry) -> Result<Written> {
    const DOING: &str = "dropping items";
    let mut drop = connection.prepare_cached(queries::DROP_ITEMS).doing(DOING)?;
    if drop.execute([id.0]).doing(DOING)? == 0 {
        return Ok(Written::Stale);
    }
    insert_journal(connection, entry)?;
    Ok(Written::Applied)
}

struct Mover<'a> {
    connection: &'a Connection,
    moving: CachedStatement<'a>,
    numbering: CachedStatement<'a>,
    ledger: LedgerRows<'a>,
}

impl<'a> Mover<'a> {
    const DOING: &'static str = "moving items";

    fn new(connection: &'a Connection) -> Result<Self> {
        let prepare = |sql| connection.prepare_cached(sql).doing(Self::DOING);
        let (moving, numbering) =
            (prepare(queries::MOVE_ITEMS)?, prepare(queries::LAST_ITEM_ATTEMPT)?);
        Ok(Self { connection, moving, numbering, ledger: LedgerRows::new(connection)? })
    }

    fn apply(&mut self, step: &ItemMove) -> Result<Written> {
        let (from, to) = step.from_to()?;
        let params = params![
            step.id.0,
            from.name(),
            to.name(),
            micros(step.at),
            step.rejection_reason.as_ref().map(Message::as_str),
            step.resets(),
            step.attempt.is_some(),
            step.attempt.as_ref().and_then(|attempt| attempt.after).map(|after| after.0),
            step.if_sha256,
            step.content.as_ref().map(|content| &content.content_url),
            step.content.as_ref().map(|content| size(content.size_bytes)).transpose()?,
            step.content.as_ref().map(|content| &content.sha256),
        ];
        if self.moving.execute(params).doing(Self::DOING)? == 0 {
            return Ok(Written::Stale);
        }
        redrive_store::failpoint!("sqlite.move_items.row");
        if step.attempt.is_some() {
            let number = self.numbering.query_row([step.id.0], |row| row.get(0));
            let number = AttemptNumber(number.doing(Self::DOING)?);
            if let Some(attempt) = step.ledger_row(number) {
                self.ledger.insert(&attempt)?;
                redrive_store::failpoint!("sqlite.move_items.ledger");
            }
        }
        if let Some(entry) = &step.journal {
            insert_journal(self.connection, entry)?;
            redrive_store::failpoint!("sqlite.move_items.journal");
        }
        Ok(Written::Applied)
    }
}

fn claim_one(connection: &Connection, claim: &GroupClaim) -> Result<ClaimedGroup> {
    const DOING: &str = "claiming a group of items";
    let ItemGroup { upload, group } = &claim.group;
    let (until, now) = (micros(claim.lease_until), micros(claim.now));
    let params = params![upload, group, claim.owner.0, until, now];
    let lease = read_rows(connection, DOING, queries::CLAIM_GROUP, params, |row| {
        Ok(LeaseRef { id: row.get()?, epoch: Epoch(row.get()?) })
    })?;
    if let Some(lease) = lease.into_iter().next() {
        return Ok(ClaimedGroup::Held(lease));
    }
    let params = params![upload, group];
    let holder = read_rows(connection, DOING, queries::GROUP_HOLDER, params, |row| {
        let (owner, until) = (row.get::<Option<String>>()?, row.optional_timestamp()?);
        let held = owner.map(WorkerId).zip(until);
        Ok(held.map(|(owner, until)| ClaimedGroup::Busy { owner, until }))
    })?;
    // No other transaction can release the group in the meantime.
    holder
        .into_iter()
        .flatten()
        .next()
        .ok_or_else(|| Error::misuse(DOING, "the group has no holder"))
}

fn read_item(row: &mut SqliteRow<'_>) -> Result<ItemRecord> {
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
        last_attempt: AttemptNumber(row.get()?),
        rejection_reason: row.get()?,
        updated_at: row.timestamp()?,
    })
}
