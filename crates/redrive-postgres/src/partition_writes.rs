//! What is written of partitions: verdicts, and what the control plane wishes.
//!
//! One exchange locks the partitions and their work and reads both, another writes what became of them.
//! Whoever changes a partition locks its row first, in the order of the keys, and its work after it;
//! claims, renewals and hand-backs touch the work alone. Work is locked in the order of its rows by all
//! of them, and claims wait for nobody, so no two can wait for each other.

use std::collections::{BTreeSet, HashMap};

use redrive_core::{PartitionId, PartitionKey, PartitionRunId};
use redrive_store::{
    AuditContext, JournalEntry, NamedPartition, PartitionAction, PartitionChange, PartitionFinish,
    PartitionRecord, PartitionWrite, Result, WorkWrite, Written,
};
use tokio_postgres::Row;

use crate::{
    PostgresStore,
    batch::each,
    bound_query::{BoundQuery, bind, columns},
    columns::{Micros, read_rows},
    journal::JournalColumns,
    ledger::AttemptColumns,
    partition_columns::{KeyColumns, read_key, read_partition},
    queries,
    session::Session,
};

/// Writes verdicts, each if it is from one who holds the partition.
pub(crate) async fn finish(
    store: &PostgresStore,
    finishes: &[PartitionFinish],
) -> Result<Vec<Written>> {
    const DOING: &str = "writing verdicts";
    if finishes.is_empty() {
        return Ok(Vec::new());
    }
    let keys: BTreeSet<&PartitionKey> = finishes.iter().map(|finish| &finish.key).collect();
    let keys: Vec<&PartitionKey> = keys.into_iter().collect();
    let mut session = store.session(DOING).await?;
    let (mut found, _) = lock(&mut session, &keys, None, DOING).await?;
    let mut writes = Vec::new();
    let mut judge = |finish: &PartitionFinish| {
        let Some(current) = found.get_mut(&finish.key) else { return Written::Stale };
        let Some(write) = finish.write(current) else { return Written::Stale };
        // A second verdict of the batch finds the lease gone.
        *current = write.after.clone();
        writes.push(write);
        Written::Applied
    };
    let written = each(finishes, &mut judge);
    apply(&mut session, &writes).await?;
    Ok(written)
}

/// Locks the partitions that are named, and changes and journals those whose state allows it.
pub(crate) async fn change(
    store: &PostgresStore,
    action: PartitionAction,
    named: &[NamedPartition],
    order: &AuditContext,
) -> Result<Vec<PartitionChange>> {
    const DOING: &str = "changing partitions";
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let keys: BTreeSet<&PartitionKey> = named.iter().map(|named| &named.key).collect();
    let keys: Vec<&PartitionKey> = keys.into_iter().collect();
    let mut session = store.session(DOING).await?;
    let new_by = action.makes_entries().then_some(order);
    let (found, made) = lock(&mut session, &keys, new_by, DOING).await?;
    let (changes, writes): (Vec<_>, Vec<_>) =
        action.changes(named, found, made, order).into_iter().unzip();
    let writes: Vec<PartitionWrite> = writes.into_iter().flatten().collect();
    apply(&mut session, &writes).await?;
    Ok(changes)
}

type Records = HashMap<PartitionKey, PartitionRecord>;

/// Begins a transaction in which partitions are locked with their work. Returns those that were there
/// and, where an order makes entries, those that were not: nobody else sees these yet.
async fn lock(
    session: &mut Session,
    keys: &[&PartitionKey],
    new_by: Option<&AuditContext>,
    doing: &'static str,
) -> Result<(Records, Records)> {
    let columns = KeyColumns::of(keys);
    let Some(order) = new_by else {
        let locks = [
            bind!(queries::LOCK_PARTITIONS, ..KeyColumns(columns)),
            bind!(queries::LOCK_PARTITION_WORK, ..KeyColumns(columns)),
            bind!(queries::PARTITIONS_BY_KEY, ..KeyColumns(columns)),
        ];
        let answers = session.begin_all(&locks).await?;
        return Ok((read_found(&answers, doing)?, Records::new()));
    };
    let insert = bind!(
        queries::INSERT_PARTITIONS,
        updated_at => &Micros(order.by.at),
        ..KeyColumns(columns)
    );
    let made = read_made(&session.begin(insert).await?, order, doing)?;
    let there: Vec<&PartitionKey> =
        keys.iter().copied().filter(|key| !made.contains_key(key)).collect();
    if there.is_empty() {
        return Ok((Records::new(), made));
    }
    let columns = KeyColumns::of(&there);
    let locks = [
        bind!(queries::LOCK_PARTITIONS, ..KeyColumns(columns)),
        bind!(queries::LOCK_PARTITION_WORK, ..KeyColumns(columns)),
        bind!(queries::PARTITIONS_BY_KEY, ..KeyColumns(columns)),
    ];
    let answers = session.continue_all(&locks).await?;
    Ok((read_found(&answers, doing)?, made))
}

fn read_found(answers: &[Vec<Row>], doing: &'static str) -> Result<Records> {
    let rows = answers.last().map(Vec::as_slice).unwrap_or_default();
    let found = read_rows(rows, doing, read_partition)?.into_iter();
    Ok(found.map(|record| (record.key.clone(), record)).collect())
}

fn read_made(rows: &[Row], order: &AuditContext, doing: &'static str) -> Result<Records> {
    let made = read_rows(rows, doing, |row| {
        let (id, key) = (PartitionId(row.get()?), read_key(row)?);
        Ok((key.clone(), PartitionRecord::new(id, key, order.by.at)))
    })?;
    Ok(made.into_iter().collect())
}

/// Writes what became of locked partitions, and commits.
async fn apply(session: &mut Session, writes: &[PartitionWrite]) -> Result<()> {
    redrive_store::failpoint!("postgres.partition.decided");
    let state: Vec<&PartitionRecord> =
        writes.iter().filter(|write| write.state_changed).map(|write| &write.after).collect();
    let gone = |work| matches!(work, WorkWrite::Remove | WorkWrite::Replace);
    let gone: Vec<i64> =
        writes.iter().filter(|write| gone(write.work)).map(|write| write.after.id.0).collect();
    let put = |work| matches!(work, WorkWrite::Put | WorkWrite::Replace);
    let put: Vec<&PartitionRecord> =
        writes.iter().filter(|write| put(write.work)).map(|write| &write.after).collect();
    let attempts: Vec<_> = writes.iter().filter_map(|write| write.attempt.as_ref()).collect();
    let told: Vec<&JournalEntry> = writes.iter().flat_map(|write| &write.journal).collect();

    let state_columns = StateColumns::of(&state);
    let work_columns = WorkArrays::of(&put);
    let ledger = AttemptColumns::of(&attempts);
    let journal = JournalColumns::of(told.iter().copied().map(Some));
    let steps = [
        (state.is_empty(), bind!(queries::WRITE_PARTITIONS, ..StateColumns(state_columns))),
        (gone.is_empty(), bind!(queries::REMOVE_PARTITION_WORK, id => &gone)),
        (put.is_empty(), bind!(queries::PUT_PARTITION_WORK, ..WorkArrays(work_columns))),
        (attempts.is_empty(), bind!(queries::INSERT_ATTEMPTS, ..AttemptColumns(ledger))),
        (told.is_empty(), bind!(queries::INSERT_JOURNAL, ..JournalColumns(journal))),
    ];
    let writes: Vec<BoundQuery<'_>> =
        steps.iter().filter(|(empty, _)| !empty).map(|(_, write)| *write).collect();
    session.commit_all(&writes).await.map(drop)
}

columns! {
    /// Rows of `partition_state` as arrays.
    struct StateColumns<'a> {
        id: Vec<i64>,
        status: Vec<&'static str>,
        current_run_id: Vec<Option<&'a str>>,
        schema_version: Vec<Option<&'a str>>,
        record_count: Vec<Option<i64>>,
        attempt_count: Vec<i64>,
        error_message: Vec<Option<&'a str>>,
        updated_at: Vec<Micros>,
    }
}

impl<'a> StateColumns<'a> {
    fn of(records: &[&'a PartitionRecord]) -> Self {
        Self {
            id: each(records, |record| record.id.0),
            status: each(records, |record| record.status.name()),
            current_run_id: each(records, |record| run_id(record.current_run_id.as_ref())),
            schema_version: each(records, |record| record.schema_version.as_deref()),
            record_count: each(records, |record| record.record_count.map(count)),
            attempt_count: each(records, |record| i64::from(record.attempt_count)),
            error_message: each(records, |record| record.error_message.as_deref()),
            updated_at: each(records, |record| Micros(record.updated_at)),
        }
    }
}

columns! {
    /// Rows of `partition_work` as arrays.
    struct WorkArrays<'a> {
        partition_id: Vec<i64>,
        source: Vec<&'a str>,
        kind: Vec<Option<&'static str>>,
        lane: Vec<Option<&'static str>>,
        requested_at: Vec<Option<Micros>>,
        requested_by: Vec<Option<&'a str>>,
        run_id: Vec<Option<&'a str>>,
        lease_owner: Vec<Option<&'a str>>,
        lease_epoch: Vec<i64>,
        lease_until: Vec<Option<Micros>>,
        paused_at: Vec<Option<Micros>>,
        paused_by: Vec<Option<&'a str>>,
        pause_reason: Vec<Option<&'a str>>,
    }
}

impl<'a> WorkArrays<'a> {
    fn of(records: &[&'a PartitionRecord]) -> Self {
        let work = each(records, |record| record.work.as_ref());
        let request = each(&work, |work| work.and_then(|work| work.request.as_ref()));
        let paused = each(records, |record| record.paused());
        Self {
            partition_id: each(records, |record| record.id.0),
            source: each(records, |record| record.key.source()),
            kind: each(&request, |request| request.map(|request| request.kind.name())),
            lane: each(&request, |request| request.map(|request| request.lane.name())),
            requested_at: each(&request, |request| request.map(|it| Micros(it.requested_at))),
            requested_by: each(&request, |request| request.map(|it| it.requested_by.as_str())),
            run_id: each(&work, |work| run_id(work.and_then(|work| work.run_id.as_ref()))),
            lease_owner: each(&work, |work| Some((*work)?.lease_owner.as_ref()?.0.as_str())),
            lease_epoch: each(&work, |work| work.map_or(0, |work| work.lease_epoch.0)),
            lease_until: each(&work, |work| Some(Micros((*work)?.lease_until?))),
            paused_at: each(&paused, |paused| paused.map(|by| Micros(by.at))),
            paused_by: each(&paused, |paused| paused.map(|by| by.actor.as_str())),
            pause_reason: each(&paused, |paused| (*paused)?.reason.as_deref()),
        }
    }
}

fn run_id(run_id: Option<&PartitionRunId>) -> Option<&str> {
    run_id.map(PartitionRunId::as_str)
}

fn count(records: u64) -> i64 {
    i64::try_from(records).unwrap_or(i64::MAX)
}
