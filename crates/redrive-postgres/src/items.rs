//! Items of uploads.

use std::collections::HashMap;

use async_trait::async_trait;
use redrive_core::{AttemptNumber, Cause, Epoch, ItemEvent, ItemId, ItemStatus, Message};
use redrive_store::{
    AddedItem, AttemptRecord, ClaimedGroup, Error, GroupClaim, ItemCounts, ItemFilter, ItemGroup,
    ItemMove, ItemRecord, Items, JournalEntry, LeaseRef, NewItem, Operator, Result, WorkerId,
    Written,
};
use tokio_postgres::{Row, types::ToSql};

use crate::{
    PostgresStore,
    batch::{Column, each, references, split_at_repeats, written},
    columns::{Columns, Micros, read_rows},
    journal::JournalColumns,
    queries,
    session::Command,
};

#[async_trait]
impl Items for PostgresStore {
    async fn add_items(&self, items: &[NewItem], by: &Operator) -> Result<Vec<AddedItem>> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        items.iter().try_for_each(NewItem::check)?;
        let (sizes, by) = (sizes_of(items)?, by.cleaned());
        let mut session = self.session(ADDING).await?;
        let inserted = session
            .begin(
                queries::INSERT_ITEMS,
                &[
                    &each(items, |item| item.group.upload.as_str()),
                    &each(items, |item| item.group.group.as_str()),
                    &each(items, |item| item.name.as_str()),
                    &each(items, |item| item.content_url.as_str()),
                    &sizes,
                    &each(items, |item| item.sha256.as_str()),
                    &Micros(by.at),
                ],
            )
            .await?;
        let mut new = read_names(&inserted, |_| Ok(()))?;
        // The first item with a new name was accepted; a later one with the same name was not.
        let accepted = each(items, |item| new.remove(&name_of(item)).map(|(id, ())| id));
        let entry =
            |(item, id): (&NewItem, &Option<ItemId>)| id.map(|id| item.journal_entry(id, &by));
        let entries: Vec<JournalEntry> = items.iter().zip(&accepted).filter_map(entry).collect();
        let refused: Vec<Name<'_>> = items
            .iter()
            .zip(&accepted)
            .filter(|(_, id)| id.is_none())
            .map(|(item, _)| name_of(item))
            .collect();
        let found = match &refused[..] {
            [] => Vec::new(),
            names => {
                let values: [&(dyn ToSql + Sync); 3] = [
                    &each(names, |name| name.0),
                    &each(names, |name| name.1),
                    &each(names, |name| name.2),
                ];
                session.query(queries::NAMED_ITEMS, &values).await?
            }
        };
        let taken = read_names(&found, |row| row.get::<&str>())?;
        let answer = |(item, id): (&NewItem, Option<ItemId>)| match (id, taken.get(&name_of(item)))
        {
            (Some(id), _) => Ok(AddedItem::Accepted(id)),
            (None, Some((id, sha256))) if *sha256 == item.sha256 => Ok(AddedItem::Duplicate(*id)),
            (None, Some((id, _))) => Ok(AddedItem::Conflict(*id)),
            (None, None) => Err(Error::Unavailable {
                doing: ADDING.to_owned(),
                source: "an item was removed while another of its name was added".into(),
            }),
        };
        let answers = items.iter().zip(accepted).map(answer).collect::<Result<_>>()?;
        let journal = JournalColumns::of(entries.iter().map(Some));
        let entries = Command { sql: queries::INSERT_JOURNAL, values: &journal.values() };
        session.commit_all(&[entries]).await?;
        redrive_store::failpoint!("postgres.add_items.committed");
        Ok(answers)
    }

    async fn items_by_id(&self, ids: &[ItemId]) -> Result<Vec<ItemRecord>> {
        const DOING: &str = "reading items";
        let ids = each(ids, |id| id.0);
        let mut session = self.session(DOING).await?;
        let rows = session.query(queries::ITEMS_BY_ID, &[&ids]).await?;
        read_rows(&rows, DOING, read_item)
    }

    async fn items_page(
        &self,
        filter: &ItemFilter,
        after: ItemId,
        limit: u32,
    ) -> Result<Vec<ItemRecord>> {
        let ItemFilter { upload, group, status } = filter;
        let status = status.map(ItemStatus::name);
        let mut session = self.session(LISTING).await?;
        let values: [&(dyn ToSql + Sync); 5] =
            [&after.0, upload, group, &status, &i64::from(limit)];
        let rows = session.query(queries::ITEMS_PAGE, &values).await?;
        read_rows(&rows, LISTING, read_item)
    }

    async fn item_counts(&self, group: &ItemGroup) -> Result<ItemCounts> {
        const DOING: &str = "counting items";
        let mut session = self.session(DOING).await?;
        let rows = session.query(queries::ITEM_COUNTS, &[&group.upload, &group.group]).await?;
        let mut counts = ItemCounts::default();
        let rows = read_rows(&rows, DOING, |row| {
            Ok((row.named("status", ItemStatus::from_name)?, row.count("count")?))
        })?;
        rows.into_iter().for_each(|(status, count)| counts.add(status, count));
        Ok(counts)
    }

    async fn pending_items(
        &self,
        group: &ItemGroup,
        after: ItemId,
        limit: u32,
    ) -> Result<Vec<ItemRecord>> {
        let ItemGroup { upload, group } = group;
        let mut session = self.session(LISTING).await?;
        let rows = session
            .query(queries::PENDING_ITEMS, &[upload, group, &after.0, &i64::from(limit)])
            .await?;
        read_rows(&rows, LISTING, read_item)
    }

    async fn increment_upload_attempts(&self, id: ItemId) -> Result<Option<u32>> {
        const DOING: &str = "counting an upload attempt";
        let mut session = self.session(DOING).await?;
        let rows = session.query(queries::INCREMENT_UPLOAD_ATTEMPTS, &[&id.0]).await?;
        let mut counts = read_rows(&rows, DOING, |row| row.count("upload_attempts"))?;
        Ok(counts.pop())
    }

    async fn move_items(&self, moves: &[ItemMove]) -> Result<Vec<Written>> {
        const DOING: &str = "moving items";
        // An item may take several steps in one batch, each from where the one before led.
        let parts = split_at_repeats(moves, |step| step.id);
        let columns = parts.iter().map(|part| MoveColumns::of(part)).collect::<Result<Vec<_>>>()?;
        let values: Vec<_> = columns.iter().map(MoveColumns::values).collect();
        let commands = each(&values, |values| Command { sql: queries::MOVE_ITEMS, values });
        let answers = match &commands[..] {
            [] => return Ok(Vec::new()),
            [lone] => vec![self.session(DOING).await?.query(lone.sql, lone.values).await?],
            several => self.session(DOING).await?.transaction(several).await?,
        };
        redrive_store::failpoint!("postgres.move_items.committed");
        let mut all = Vec::with_capacity(moves.len());
        for (part, applied) in parts.iter().zip(answers) {
            all.extend(written(&applied, DOING, part.len())?);
        }
        Ok(all)
    }

    async fn claim_group(&self, claim: &GroupClaim) -> Result<ClaimedGroup> {
        const DOING: &str = "claiming a group of items";
        let ItemGroup { upload, group } = &claim.group;
        let (until, now) = (Micros(claim.lease_until), Micros(claim.now));
        let mut session = self.session(DOING).await?;
        for _ in 0..CLAIMS_OF_A_GROUP {
            let values: [&(dyn ToSql + Sync); 5] = [upload, group, &claim.owner.0, &until, &now];
            let rows = session.query(queries::CLAIM_GROUP, &values).await?;
            redrive_store::failpoint!("postgres.claim_group.committed");
            let lease = read_rows(&rows, DOING, |row| {
                Ok(LeaseRef { id: row.get()?, epoch: Epoch(row.get()?) })
            })?;
            if let Some(lease) = lease.into_iter().next() {
                return Ok(ClaimedGroup::Held(lease));
            }
            let rows = session.query(queries::GROUP_HOLDER, &[upload, group]).await?;
            let holder = read_rows(&rows, DOING, |row| {
                let (owner, until) = (row.get::<Option<String>>()?, row.optional_timestamp()?);
                let held = owner.map(WorkerId).zip(until);
                Ok(held.map(|(owner, until)| ClaimedGroup::Busy { owner, until }))
            })?;
            if let Some(holder) = holder.into_iter().flatten().next() {
                return Ok(holder);
            }
        }
        let source = "the group changes hands faster than it can be looked at".into();
        Err(Error::Unavailable { doing: DOING.to_owned(), source })
    }
}

const ADDING: &str = "adding items";
const LISTING: &str = "listing items";

/// A holder may let go between the claim and the look at who it is.
const CLAIMS_OF_A_GROUP: usize = 3;

/// Upload, group and name, which are an item's natural key.
type Name<'a> = (&'a str, &'a str, &'a str);

fn name_of(item: &NewItem) -> Name<'_> {
    (&item.group.upload, &item.group.group, &item.name)
}

fn sizes_of(items: &[NewItem]) -> Result<Vec<i64>> {
    let size_of = |item: &NewItem| {
        i64::try_from(item.size_bytes)
            .map_err(|_| Error::misuse(ADDING, "an item is larger than a file can be"))
    };
    items.iter().map(size_of).collect()
}

/// Rows of id, natural key and one thing more, by key.
fn read_names<'a, T>(
    rows: &'a [Row],
    more: impl Fn(&mut Columns<'a>) -> Result<T>,
) -> Result<HashMap<Name<'a>, (ItemId, T)>> {
    let mut names = HashMap::with_capacity(rows.len());
    for row in rows {
        let row = &mut Columns::new(row, ADDING);
        let id = ItemId(row.get()?);
        let name = (row.get()?, row.get()?, row.get()?);
        names.insert(name, (id, more(row)?));
    }
    Ok(names)
}

/// A part of a batch of moves, as arrays.
struct MoveColumns<'a> {
    id: Vec<i64>,
    old_status: Vec<&'static str>,
    new_status: Vec<&'static str>,
    at: Vec<Micros>,
    reason: Vec<Option<&'a str>>,
    reset: Vec<bool>,
    attempts: [Column<'static>; 9],
    journal: JournalColumns<'a>,
    after: Vec<Option<i64>>,
}

impl<'a> MoveColumns<'a> {
    fn of(moves: &'a [ItemMove]) -> Result<Self> {
        let from_to = moves.iter().map(ItemMove::from_to).collect::<Result<Vec<_>>>()?;
        Ok(Self {
            id: each(moves, |step| step.id.0),
            old_status: each(&from_to, |(from, _)| from.name()),
            new_status: each(&from_to, |(_, to)| to.name()),
            at: each(moves, |step| Micros(step.at)),
            reason: each(moves, |step| step.rejection_reason.as_ref().map(Message::as_str)),
            reset: each(moves, |step| step.event == ItemEvent::Reset),
            attempts: attempt_columns(moves),
            journal: JournalColumns::of(moves.iter().map(|step| step.journal.as_ref())),
            after: each(moves, |step| {
                step.attempt.as_ref().and_then(|attempt| attempt.after).map(|after| after.0.into())
            }),
        })
    }

    fn values(&self) -> Vec<&(dyn ToSql + Sync)> {
        let mut values: Vec<&(dyn ToSql + Sync)> =
            vec![&self.id, &self.old_status, &self.new_status, &self.at, &self.reason, &self.reset];
        values.extend(references(&self.attempts));
        values.extend(self.journal.values());
        values.push(&self.after);
        values
    }
}

/// The rows of the ledger, without their numbers: those are given out by the items.
fn attempt_columns(moves: &[ItemMove]) -> [Column<'static>; 9] {
    let rows = each(moves, |step| step.ledger_row(AttemptNumber(0)));
    fn column<T>(
        rows: &[Option<AttemptRecord>],
        value: impl Fn(&AttemptRecord) -> Option<T>,
    ) -> Column<'static>
    where
        Vec<Option<T>>: ToSql + Sync + Send + 'static,
    {
        Box::new(each(rows, |row| row.as_ref().and_then(&value)))
    }
    [
        column(&rows, |row| Some(row.counted)),
        column(&rows, |row| Some(Micros(row.started_at))),
        column(&rows, |row| Some(row.outcome.name())),
        column(&rows, |row| row.class.clone()),
        column(&rows, |row| row.code.clone()),
        column(&rows, |row| row.message.clone()),
        column(&rows, |row| row.fingerprint.clone()),
        column(&rows, |row| row.cause.map(Cause::name)),
        column(&rows, |row| Some(row.worker.clone())),
    ]
}

fn read_item(row: &mut Columns<'_>) -> Result<ItemRecord> {
    Ok(ItemRecord {
        id: ItemId(row.get()?),
        group: ItemGroup { upload: row.get()?, group: row.get()? },
        name: row.get()?,
        content_url: row.get()?,
        size_bytes: row.count("size_bytes")?,
        sha256: row.get()?,
        status: row.named("status", ItemStatus::from_name)?,
        upload_attempts: row.count("upload_attempts")?,
        attempts_at_reset: row.count("attempts_at_reset")?,
        last_attempt: AttemptNumber(row.count("last_attempt")?),
        rejection_reason: row.get()?,
        updated_at: row.timestamp()?,
    })
}
