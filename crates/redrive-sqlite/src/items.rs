//! Implements [`Items`].

use async_trait::async_trait;
use redrive_core::{AttemptNumber, ItemId, ItemStatus, Message};
use redrive_store::{
    AddedItem, ClaimedGroup, Error, ExpiringLease, GatePass, GateResults, GroupClaim,
    ItemAdmission, ItemCounts, ItemGroup, ItemMove, ItemRecord, Items, JournalEntry, LeaseRef,
    NewItem, Operator, PageLimit, Result, Selection, SelectionSql, UnitKind, WorkerId, Written,
};
use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

use crate::{
    SqliteLeaseClock, SqliteStore,
    columns::{json_ids, micros, read_records},
    error::Doing,
    gates::{GateRequest, end_permits, settle},
    journal::insert_journal,
    ledger::LedgerRows,
    queries,
    selected::SelectQuery,
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
        let ids = json_ids(ids.iter().map(|id| id.0));
        self.read(move |connection| {
            read_records(connection, "reading items", queries::ITEMS_BY_ID, [&ids])
        })
        .await
    }

    async fn items_page(
        &self,
        filter: &Selection,
        after: ItemId,
        limit: PageLimit,
    ) -> Result<Vec<ItemRecord>> {
        let own = vec![after.0.into(), limit.rows.into()];
        let units = SelectionSql::ITEMS.in_order(limit.order);
        let page = SelectQuery { units, sql: queries::ITEMS_PAGE, own };
        self.select("listing items", page, filter).await
    }

    async fn item_counts(&self, group: &ItemGroup) -> Result<ItemCounts> {
        let ItemGroup { upload, group } = group.clone();
        self.read(move |connection| {
            let params = params![upload, group];
            let counts: Vec<(ItemStatus, u64)> =
                read_records(connection, "counting items", queries::ITEM_COUNTS, params)?;
            Ok(counts.into_iter().collect())
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
            read_records(connection, "listing items", queries::PENDING_ITEMS, params)
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
        let move_all = move |connection: &Connection| {
            let written = move_all(connection, &moves)?;
            let wakes = settle_items(connection, &moves, &written)?;
            Ok((written, wakes))
        };
        let (written, wakes) = self.write(move_all).await?;
        redrive_store::failpoint!("sqlite.move_items.committed");
        self.wakes.wake_if(wakes);
        Ok(written)
    }

    async fn admit_items(&self, admission: &ItemAdmission) -> Result<Vec<GatePass>> {
        let (admission, clock) = (admission.clone(), self.clock.clone());
        let gives_back = admission.gives_back();
        let admit = self.write(move |connection| admit(connection, &admission, &clock));
        let passes = admit.await?;
        self.wakes.wake_if(gives_back);
        Ok(passes)
    }

    async fn drop_items(&self, drops: &[(ItemId, JournalEntry)]) -> Result<Vec<Written>> {
        let drops = drops.to_vec();
        let write = self.write(move |connection| {
            drops.iter().map(|(id, entry)| drop_one(connection, *id, entry)).collect()
        });
        let written = write.await?;
        redrive_store::failpoint!("sqlite.drop_items.committed");
        Ok(written)
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
    Ok(item.refused_by(ItemId(id), &sha256))
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
    redrive_store::failpoint!("sqlite.drop_items.row");
    insert_journal(connection, entry)?;
    Ok(Written::Applied)
}

pub(crate) fn move_all(connection: &Connection, moves: &[ItemMove]) -> Result<Vec<Written>> {
    let mut mover = Mover::new(connection)?;
    let written = moves.iter().map(|step| mover.apply(step)).collect::<Result<Vec<_>>>()?;
    mover.ledger.finish()?;
    Ok(written)
}

/// Tells the gates of items that were sent. Returns whether more or fewer units may be let through than before.
fn settle_items(connection: &Connection, moves: &[ItemMove], written: &[Written]) -> Result<bool> {
    let results = GateResults::of_items(moves);
    let Some(worker) = moves.iter().find_map(|step| Some(step.attempt.as_ref()?.worker.clone()))
    else {
        return Ok(false);
    };
    let applied = moves.iter().zip(written).filter(|(_, it)| **it == Written::Applied);
    let permits: Vec<LeaseRef> = applied.filter_map(|(step, _)| step.permit()).collect();
    settle(connection, UnitKind::Item, results, &permits, &WorkerId(worker))
}

fn admit(
    connection: &Connection,
    admission: &ItemAdmission,
    clock: &SqliteLeaseClock,
) -> Result<Vec<GatePass>> {
    let ItemAdmission { gates, owner, now, group, limit, .. } = admission;
    let (kind, limit) = (UnitKind::Item, *limit);
    for permit in admission.permits() {
        end_permits(connection, kind, permit)?;
    }
    let asked = GateRequest { gates, kind, owner, limit, now: *now };
    let present = || Ok(vec![group.clone()]);
    let Some(gated) = asked.look(connection, clock(), present, |_| true)? else {
        return Ok(vec![GatePass::default(); limit as usize]);
    };
    let most = gated.most.first().map_or(0, |(_, most)| *most);
    asked.let_through(connection, clock(), gated, &admission.units(most))
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
        let failure = step.attempt.as_ref().and_then(|attempt| attempt.failure.as_ref());
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
            failure.map(|failure| failure.class().name()),
            failure.map(|failure| failure.code().to_string()),
            failure.map(|failure| failure.fingerprint().to_string()),
            failure.map(|_| micros(step.at)),
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
    let lease = read_records(connection, DOING, queries::CLAIM_GROUP, params)?.pop();
    if let Some(lease) = lease {
        return Ok(ClaimedGroup::Held(lease));
    }
    let params = params![upload, group];
    let holder: Vec<Option<ExpiringLease>> =
        read_records(connection, DOING, queries::GROUP_HOLDER, params)?;
    // No other transaction can release the group in the meantime.
    let holder = holder.into_iter().flatten().next();
    holder
        .map(|ExpiringLease { owner, until }| ClaimedGroup::Busy { owner, until })
        .ok_or_else(|| Error::misuse(DOING, "the group has no holder"))
}
