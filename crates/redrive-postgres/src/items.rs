//! Items of uploads, and the leases of their groups.

use std::collections::HashMap;

use async_trait::async_trait;
use redrive_core::{AttemptNumber, Cause, ItemId, ItemStatus, Message};
use redrive_store::{
    AddedItem, AttemptRecord, ClaimedGroup, Error, ExpiringLease, GatePass, GateResults,
    GroupClaim, ItemAdmission, ItemCounts, ItemGroup, ItemMove, ItemRecord, Items, JournalEntry,
    LeaseRef, NewItem, Operator, PageLimit, ReadColumn, Result, RowReader, Selection, SelectionSql,
    UnitKind, WorkerId, Written,
};
use tokio_postgres::Row;

use crate::{
    PostgresStore,
    batch::{each, split_at_repeats, written},
    bound_query::{bind, columns},
    causes::FailureColumns,
    columns::{Micros, PostgresRow, read_records, read_rows},
    gates::{GateRequest, commit, settle},
    journal::JournalColumns,
    queries,
    session::Session,
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
            .begin(bind!(
                queries::INSERT_ITEMS,
                upload => &each(items, |item| item.group.upload.as_str()),
                group_name => &each(items, |item| item.group.group.as_str()),
                name => &each(items, |item| item.name.as_str()),
                content_url => &each(items, |item| item.content_url.as_str()),
                size_bytes => &sizes,
                sha256 => &each(items, |item| item.sha256.as_str()),
                updated_at => &Micros(by.at),
            ))
            .await?;
        let mut new = read_names(&inserted, |_| Ok(()))?;
        // Only the first item of a new name is accepted.
        let accepted = each(items, |item| new.remove(&name_of(item)).map(|(id, ())| id));
        let entry =
            |(item, id): (&NewItem, &Option<ItemId>)| id.map(|id| item.journal_entry(id, &by));
        let entries: Vec<JournalEntry> = items.iter().zip(&accepted).filter_map(entry).collect();
        let refused: Vec<ItemName<'_>> = items
            .iter()
            .zip(&accepted)
            .filter(|(_, id)| id.is_none())
            .map(|(item, _)| name_of(item))
            .collect();
        let found = match &refused[..] {
            [] => Vec::new(),
            names => {
                let read = bind!(
                    queries::NAMED_ITEMS,
                    upload => &each(names, |name| name.0),
                    group_name => &each(names, |name| name.1),
                    name => &each(names, |name| name.2),
                );
                session.query(read).await?
            }
        };
        let taken = read_names(&found, ReadColumn::<&str>::get)?;
        let answer = |(item, id): (&NewItem, Option<ItemId>)| match (id, taken.get(&name_of(item)))
        {
            (Some(id), _) => Ok(AddedItem::Accepted(id)),
            (None, Some((id, sha256))) => Ok(item.refused_by(*id, sha256)),
            (None, None) => Err(Error::Unavailable {
                doing: ADDING.to_owned(),
                source: "an item was removed while another of its name was added".into(),
            }),
        };
        let answers = items.iter().zip(accepted).map(answer).collect::<Result<_>>()?;
        let journal = JournalColumns::of(entries.iter().map(Some));
        let insert = bind!(queries::INSERT_JOURNAL, ..JournalColumns(journal));
        session.commit_all(&[insert]).await?;
        redrive_store::failpoint!("postgres.add_items.committed");
        Ok(answers)
    }

    async fn items_by_id(&self, ids: &[ItemId]) -> Result<Vec<ItemRecord>> {
        const DOING: &str = "reading items";
        let ids = each(ids, |id| id.0);
        let mut session = self.session(DOING).await?;
        let rows = session.query(bind!(queries::ITEMS_BY_ID, ids => &ids)).await?;
        read_records(&rows, DOING)
    }

    async fn items_page(
        &self,
        filter: &Selection,
        after: ItemId,
        limit: PageLimit,
    ) -> Result<Vec<ItemRecord>> {
        let page = bind!(queries::ITEMS_PAGE, after => &after.0, limit => &i64::from(limit.rows));
        let mut session = self.session(LISTING).await?;
        let units = SelectionSql::ITEMS.in_order(limit.order);
        let rows = session.select(page, &units, filter).await?;
        read_records(&rows, LISTING)
    }

    async fn item_counts(&self, group: &ItemGroup) -> Result<ItemCounts> {
        const DOING: &str = "counting items";
        let mut session = self.session(DOING).await?;
        let ItemGroup { upload, group } = group;
        let counts = bind!(queries::ITEM_COUNTS, upload => upload, group_name => group);
        let rows = session.query(counts).await?;
        let counts: Vec<(ItemStatus, u64)> = read_records(&rows, DOING)?;
        Ok(counts.into_iter().collect())
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
            .query(bind!(
                queries::PENDING_ITEMS,
                upload => upload,
                group_name => group,
                after => &after.0,
                limit => &i64::from(limit),
            ))
            .await?;
        read_records(&rows, LISTING)
    }

    async fn increment_upload_attempts(&self, id: ItemId) -> Result<Option<u32>> {
        const DOING: &str = "counting an upload attempt";
        let mut session = self.session(DOING).await?;
        let increment = bind!(queries::INCREMENT_UPLOAD_ATTEMPTS, id => &id.0);
        let rows = session.query(increment).await?;
        let mut counts = read_rows(&rows, DOING, |row| row.count("upload_attempts"))?;
        Ok(counts.pop())
    }

    async fn drop_items(&self, drops: &[(ItemId, JournalEntry)]) -> Result<Vec<Written>> {
        const DOING: &str = "dropping items";
        if drops.is_empty() {
            return Ok(Vec::new());
        }
        let journal = JournalColumns::of(drops.iter().map(|(_, entry)| Some(entry)));
        let drop = bind!(
            queries::DROP_ITEMS,
            id => &each(drops, |(id, _)| id.0),
            ..JournalColumns(journal)
        );
        let applied = self.session(DOING).await?.query(drop).await?;
        redrive_store::failpoint!("postgres.drop_items.committed");
        written(&applied, DOING, drops.len())
    }

    async fn move_items(&self, moves: &[ItemMove]) -> Result<Vec<Written>> {
        const DOING: &str = "moving items";
        // An item may move several times in one batch, each time from where the move before led.
        let parts = split_at_repeats(moves, |step| step.id);
        let columns = parts.iter().map(|part| move_columns(part)).collect::<Result<Vec<_>>>()?;
        let values = each(&columns, |(moves, journal)| (moves.values(), journal.values()));
        let groups = each(&values, |(moves, journal)| [&moves[..], &journal[..]]);
        let updates = each(
            &groups,
            |groups| bind!(queries::MOVE_ITEMS, [MoveColumns, JournalColumns] => groups),
        );
        let attempts: Vec<AttemptRecord> =
            moves.iter().filter_map(|step| step.ledger_row(AttemptNumber(0))).collect();
        let failures = FailureColumns::of(&attempts);
        let record = bind!(queries::RECORD_CAUSES, in_ledger => &true, ..FailureColumns(failures));
        // Each part locks its items in the order of their ids; a later part may have lower ones.
        let ids = each(moves, |step| step.id.0);
        let lock = bind!(queries::LOCK_ITEMS, ids => &ids);
        let mut session = self.session(DOING).await?;
        let results = GateResults::of_items(moves);
        let answers = match &updates[..] {
            [] => return Ok(Vec::new()),
            several if !results.is_empty() => {
                let mut all = session.begin_all(&[&[lock], several].concat()).await?;
                all.split_off(1)
            }
            [lone] if failures.is_empty() => vec![session.query(*lone).await?],
            several => {
                let mut all = session.transaction(&[&[lock], several, &[record]].concat()).await?;
                all.split_off(1)
            }
        };
        let mut all = Vec::with_capacity(moves.len());
        for (part, applied) in parts.iter().zip(answers) {
            all.extend(written(&applied, DOING, part.len())?);
        }
        let worker = moves.iter().find_map(|step| Some(step.attempt.as_ref()?.worker.clone()));
        if let Some(worker) = worker.filter(|_| !results.is_empty()) {
            let applied = moves.iter().zip(&all).filter(|(_, it)| **it == Written::Applied);
            let permits: Vec<LeaseRef> = applied.filter_map(|(step, _)| step.permit()).collect();
            let worker = WorkerId(worker);
            let gates = settle(&mut session, UnitKind::Item, results, &permits, &worker).await?;
            let record = [record];
            let others = if failures.is_empty() { &[][..] } else { &record };
            commit(&mut session, &gates, others).await?;
            drop(session);
            self.notify_if(gates.changed || gates.freed).await;
        }
        redrive_store::failpoint!("postgres.move_items.committed");
        Ok(all)
    }

    async fn admit_items(&self, admission: &ItemAdmission) -> Result<Vec<GatePass>> {
        const DOING: &str = "admitting items";
        let ItemAdmission { gates, owner, now, group, limit, .. } = admission;
        let (kind, limit) = (UnitKind::Item, *limit);
        let asked = GateRequest { gates, kind, owner, limit, now: *now };
        let mut session = self.session(DOING).await?;
        let permits = admission.permits();
        let end = bind!(
            queries::END_GATE_PERMITS,
            kind => &kind.name(),
            unit_id => &each(&permits, |permit| permit.id),
            lease_epoch => &each(&permits, |permit| permit.epoch.0),
        );
        let passes = match asked.begin(self, &mut session, &[end]).await? {
            None => {
                session.commit().await?;
                vec![GatePass::default(); limit as usize]
            }
            Some(rows) => {
                let present = vec![group.clone()];
                let gated = asked.look(self, &mut session, rows, present, |_| true).await?;
                let most = gated.most.first().map_or(0, |(_, most)| *most);
                asked.commit(self, &mut session, gated, &admission.units(most)).await?
            }
        };
        drop(session);
        self.notify_if(admission.gives_back()).await;
        Ok(passes)
    }

    async fn claim_group(&self, claim: &GroupClaim) -> Result<ClaimedGroup> {
        const DOING: &str = "claiming a group of items";
        let ItemGroup { upload, group } = &claim.group;
        let (until, now) = (Micros(claim.lease_until), Micros(claim.now));
        let mut session = self.session(DOING).await?;
        for _ in 0..GROUP_CLAIM_TRIES {
            let take = bind!(
                queries::CLAIM_GROUP,
                upload => upload,
                group_name => group,
                owner => &claim.owner.0,
                lease_until => &until,
                now => &now,
            );
            let rows = session.query(take).await?;
            redrive_store::failpoint!("postgres.claim_group.committed");
            if let Some(lease) = read_records(&rows, DOING)?.pop() {
                return Ok(ClaimedGroup::Held(lease));
            }
            let holder = bind!(queries::GROUP_HOLDER, upload => upload, group_name => group);
            let rows = session.query(holder).await?;
            let holder: Vec<Option<ExpiringLease>> = read_records(&rows, DOING)?;
            if let Some(ExpiringLease { owner, until }) = holder.into_iter().flatten().next() {
                return Ok(ClaimedGroup::Busy { owner, until });
            }
        }
        let source = "the group was claimed and released by others at the same time".into();
        Err(Error::Unavailable { doing: DOING.to_owned(), source })
    }
}

const ADDING: &str = "adding items";
const LISTING: &str = "listing items";

/// The holder may release the group between the claim and the query for the holder.
const GROUP_CLAIM_TRIES: usize = 3;

/// An item's natural key: upload, group and name.
type ItemName<'a> = (&'a str, &'a str, &'a str);

fn name_of(item: &NewItem) -> ItemName<'_> {
    (&item.group.upload, &item.group.group, &item.name)
}

fn sizes_of(items: &[NewItem]) -> Result<Vec<i64>> {
    let size_of = |item: &NewItem| {
        i64::try_from(item.size_bytes)
            .map_err(|_| Error::misuse(ADDING, "an item has more bytes than the store can record"))
    };
    items.iter().map(size_of).collect()
}

/// Reads rows of id, natural key and one more value, by key.
fn read_names<'a, T>(
    rows: &'a [Row],
    more: impl Fn(&mut PostgresRow<'a>) -> Result<T>,
) -> Result<HashMap<ItemName<'a>, (ItemId, T)>> {
    let mut names = HashMap::with_capacity(rows.len());
    for row in rows {
        let row = &mut PostgresRow::new(row, ADDING);
        let id = ItemId(row.get()?);
        let name = (row.get()?, row.get()?, row.get()?);
        names.insert(name, (id, more(row)?));
    }
    Ok(names)
}

columns! {
    /// Moves of items as arrays, with the rows of the ledger. An attempt has no number here: the item
    /// gives it one.
    struct MoveColumns<'a> {
        id: Vec<i64>,
        old_status: Vec<&'static str>,
        new_status: Vec<&'static str>,
        moved_at: Vec<Micros>,
        reason: Vec<Option<&'a str>>,
        reset: Vec<bool>,
        after: Vec<Option<i64>>,
        counted: Vec<Option<bool>>,
        started_at: Vec<Option<Micros>>,
        outcome: Vec<Option<&'static str>>,
        class: Vec<Option<String>>,
        code: Vec<Option<String>>,
        message: Vec<Option<String>>,
        fingerprint: Vec<Option<String>>,
        cause: Vec<Option<&'static str>>,
        worker: Vec<Option<String>>,
        asked_us: Vec<Option<i64>>,
        if_sha256: Vec<Option<&'a str>>,
        content_url: Vec<Option<&'a str>>,
        size_bytes: Vec<Option<i64>>,
        sha256: Vec<Option<&'a str>>,
    }
}

/// Moves locked items, each at most once, in the open transaction, and returns how many moved.
pub(crate) async fn move_locked(session: &mut Session, moves: &[ItemMove]) -> Result<usize> {
    let (columns, journal) = move_columns(moves)?;
    let update = bind!(queries::MOVE_ITEMS, ..MoveColumns(columns), ..JournalColumns(journal));
    Ok(session.query(update).await?.len())
}

fn move_columns(moves: &[ItemMove]) -> Result<(MoveColumns<'_>, JournalColumns<'_>)> {
    let from_to = moves.iter().map(ItemMove::from_to).collect::<Result<Vec<_>>>()?;
    let ledger = each(moves, |step| step.ledger_row(AttemptNumber(0)));
    let columns = MoveColumns {
        id: each(moves, |step| step.id.0),
        old_status: each(&from_to, |(from, _)| from.name()),
        new_status: each(&from_to, |(_, to)| to.name()),
        moved_at: each(moves, |step| Micros(step.at)),
        reason: each(moves, |step| step.rejection_reason.as_ref().map(Message::as_str)),
        reset: each(moves, ItemMove::resets),
        after: each(moves, |step| Some(step.attempt.as_ref()?.after?.0.into())),
        counted: each(&ledger, |row| row.as_ref().map(|row| row.counted)),
        started_at: each(&ledger, |row| row.as_ref().map(|row| Micros(row.started_at))),
        outcome: each(&ledger, |row| row.as_ref().map(|row| row.outcome.name())),
        class: each(&ledger, |row| row.as_ref()?.class.clone()),
        code: each(&ledger, |row| row.as_ref()?.code.clone()),
        message: each(&ledger, |row| row.as_ref()?.message.clone()),
        fingerprint: each(&ledger, |row| row.as_ref()?.fingerprint.clone()),
        cause: each(&ledger, |row| row.as_ref()?.cause.map(Cause::name)),
        worker: each(&ledger, |row| row.as_ref().map(|row| row.worker.clone())),
        asked_us: each(&ledger, |row| row.as_ref()?.asked_us()),
        if_sha256: each(moves, |step| step.if_sha256.as_deref()),
        content_url: each(moves, |step| Some(step.content.as_ref()?.content_url.as_str())),
        size_bytes: each(moves, |step| i64::try_from(step.content.as_ref()?.size_bytes).ok()),
        sha256: each(moves, |step| Some(step.content.as_ref()?.sha256.as_str())),
    };
    Ok((columns, JournalColumns::of(moves.iter().map(|step| step.journal.as_ref()))))
}
