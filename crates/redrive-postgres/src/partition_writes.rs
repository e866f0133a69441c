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
use tokio_postgres::{Row, types::ToSql};

use crate::{
    PostgresStore,
    batch::{Column, each, references},
    columns::{Micros, read_rows},
    journal::JournalColumns,
    ledger::AttemptColumns,
    partition_columns::{KeyColumns, read_key, read_partition},
    queries,
    session::{Command, Session},
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
    const LOCKS: [&str; 3] =
        [queries::LOCK_PARTITIONS, queries::LOCK_PARTITION_WORK, queries::PARTITIONS_BY_KEY];
    let Some(order) = new_by else {
        let columns = KeyColumns::of(keys);
        let values = columns.values();
        let answers = session.begin_all(&LOCKS.map(|sql| Command { sql, values: &values })).await?;
        return Ok((read_found(&answers, doing)?, Records::new()));
    };
    let columns = KeyColumns::of(keys);
    let at = Micros(order.by.at);
    let values: Vec<&(dyn ToSql + Sync)> =
        columns.values().into_iter().chain([&at as &(dyn ToSql + Sync)]).collect();
    let made = read_made(&session.begin(queries::INSERT_PARTITIONS, &values).await?, order, doing)?;
    let there: Vec<&PartitionKey> =
        keys.iter().copied().filter(|key| !made.contains_key(key)).collect();
    if there.is_empty() {
        return Ok((Records::new(), made));
    }
    let columns = KeyColumns::of(&there);
    let values = columns.values();
    let answers = session.continue_all(&LOCKS.map(|sql| Command { sql, values: &values })).await?;
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

    let state_columns = state_columns(&state);
    let work_columns = work_columns(&put);
    let ledger = AttemptColumns::of(&attempts);
    let journal = JournalColumns::of(told.iter().copied().map(Some));
    let (state_values, work_values) = (references(&state_columns), references(&work_columns));
    let steps: [(bool, &str, &[&(dyn ToSql + Sync)]); 5] = [
        (state.is_empty(), queries::WRITE_PARTITIONS, &state_values),
        (gone.is_empty(), queries::REMOVE_PARTITION_WORK, &[&gone]),
        (put.is_empty(), queries::PUT_PARTITION_WORK, &work_values),
        (attempts.is_empty(), queries::INSERT_ATTEMPTS, &ledger.values()),
        (told.is_empty(), queries::INSERT_JOURNAL, &journal.values()),
    ];
    let steps = steps.iter().filter(|(nothing, ..)| !nothing);
    let commands: Vec<Command<'_>> =
        steps.map(|(_, sql, values)| Command { sql, values }).collect();
    session.commit_all(&commands).await.map(drop)
}

fn state_columns<'a>(records: &[&'a PartitionRecord]) -> [Column<'a>; 8] {
    [
        Box::new(each(records, |record| record.id.0)),
        Box::new(each(records, |record| record.status.name())),
        Box::new(each(records, |record| run_id(record.current_run_id.as_ref()))),
        Box::new(each(records, |record| record.schema_version.as_deref())),
        Box::new(each(records, |record| record.record_count.map(count))),
        Box::new(each(records, |record| i64::from(record.attempt_count))),
        Box::new(each(records, |record| record.error_message.as_deref())),
        Box::new(each(records, |record| Micros(record.updated_at))),
    ]
}

fn work_columns<'a>(records: &[&'a PartitionRecord]) -> [Column<'a>; 13] {
    let work = |record: &&'a PartitionRecord| record.work.as_ref();
    let request = |record: &&'a PartitionRecord| record.work.as_ref()?.request.as_ref();
    let paused = |record: &&'a PartitionRecord| record.paused();
    [
        Box::new(each(records, |record| record.id.0)),
        Box::new(each(records, |record| record.key.source())),
        Box::new(each(records, |record| request(record).map(|request| request.kind.name()))),
        Box::new(each(records, |record| request(record).map(|request| request.lane.name()))),
        Box::new(each(records, |record| request(record).map(|asked| Micros(asked.requested_at)))),
        Box::new(each(records, |record| request(record).map(|asked| asked.requested_by.as_str()))),
        Box::new(each(records, |record| {
            run_id(work(record).and_then(|work| work.run_id.as_ref()))
        })),
        Box::new(each(records, |record| Some(work(record)?.lease_owner.as_ref()?.0.as_str()))),
        Box::new(each(records, |record| work(record).map_or(0, |work| work.lease_epoch.0))),
        Box::new(each(records, |record| Some(Micros(work(record)?.lease_until?)))),
        Box::new(each(records, |record| paused(record).map(|by| Micros(by.at)))),
        Box::new(each(records, |record| paused(record).map(|by| by.actor.as_str()))),
        Box::new(each(records, |record| paused(record)?.reason.as_deref())),
    ]
}

fn run_id(run_id: Option<&PartitionRunId>) -> Option<&str> {
    run_id.map(PartitionRunId::as_str)
}

fn count(records: u64) -> i64 {
    i64::try_from(records).unwrap_or(i64::MAX)
}
