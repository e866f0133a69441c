//! Writes to partitions: verdicts, and actions of operators.
//!
//! One round trip locks and reads the partitions and their work, another writes the changes. Every transaction that
//! changes a partition locks its row first, in the order of the keys, and its work after it; claims, renewals and
//! releases lock only the work. All of them lock work in the order of its ids, and claims never wait, so no deadlock
//! is possible. Gates come after both, and the causes of failures last, as in all transactions that have them.

use std::collections::{BTreeSet, HashMap};

use redrive_core::{PartitionId, PartitionKey, PartitionRunId};
use redrive_store::{
    AuditContext, FromRow, GateResults, JournalEntry, LeaseRef, NamedPartition, PartitionAction,
    PartitionChange, PartitionFinish, PartitionRecord, PartitionWrite, ReadColumn, Result,
    UnitKind, WorkWrite, Written,
};
use tokio_postgres::Row;

use crate::{
    PostgresStore,
    batch::each,
    bound_query::{BoundQuery, bind, columns},
    causes::FailureColumns,
    columns::{Micros, read_records, read_rows},
    gates::{commit, settle},
    journal::JournalColumns,
    ledger::AttemptColumns,
    partition_columns::KeyColumns,
    queries,
    session::Session,
};

/// Writes the verdicts of workers that still hold their partitions. Also returns whether gates may let more or fewer
/// partitions through than before.
pub(crate) async fn finish(
    store: &PostgresStore,
    finishes: &[PartitionFinish],
) -> Result<(Vec<Written>, bool)> {
    const DOING: &str = "writing verdicts";
    let Some(first) = finishes.first() else { return Ok((Vec::new(), false)) };
    let keys: BTreeSet<&PartitionKey> = finishes.iter().map(|finish| &finish.key).collect();
    let keys: Vec<&PartitionKey> = keys.into_iter().collect();
    let mut session = store.session(DOING).await?;
    let (mut found, _) = lock(&mut session, &keys, None, DOING).await?;
    let mut writes = Vec::new();
    let mut judge = |finish: &PartitionFinish| {
        let Some(current) = found.get_mut(&finish.key) else { return Written::Stale };
        let Some(write) = finish.write(current) else { return Written::Stale };
        // A second verdict in the batch finds no lease.
        *current = write.after.clone();
        writes.push(write);
        Written::Applied
    };
    let written = each(finishes, &mut judge);
    let results = GateResults::of_partitions(finishes);
    if results.is_empty() {
        apply(&mut session, &writes, true).await?;
        return Ok((written, false));
    }
    apply(&mut session, &writes, false).await?;
    let applied = finishes.iter().zip(&written).filter(|(_, it)| **it == Written::Applied);
    let applied: Vec<LeaseRef> = applied.map(|(finish, _)| finish.lease).collect();
    let gates = settle(&mut session, UnitKind::Partition, results, &applied, &first.worker).await?;
    let failures = FailureColumns::of(writes.iter().filter_map(|write| write.attempt.as_ref()));
    let has_failures = !failures.is_empty();
    let record = [bind!(queries::RECORD_CAUSES, in_ledger => &true, ..FailureColumns(failures))];
    commit(&mut session, &gates, if has_failures { &record } else { &[] }).await?;
    Ok((written, gates.changed || gates.freed))
}

/// Locks partitions, and changes and journals those whose state allows the action.
pub(crate) async fn change(
    store: &PostgresStore,
    action: PartitionAction,
    named: &[NamedPartition],
    audit: &AuditContext,
) -> Result<Vec<PartitionChange>> {
    const DOING: &str = "changing partitions";
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let keys: BTreeSet<&PartitionKey> = named.iter().map(|named| &named.key).collect();
    let keys: Vec<&PartitionKey> = keys.into_iter().collect();
    let mut session = store.session(DOING).await?;
    let creates_by = action.makes_entries().then_some(audit);
    let (found, created) = lock(&mut session, &keys, creates_by, DOING).await?;
    let (changes, writes): (Vec<_>, Vec<_>) =
        action.changes(named, found, created, audit).into_iter().unzip();
    let writes: Vec<PartitionWrite> = writes.into_iter().flatten().collect();
    apply(&mut session, &writes, true).await?;
    Ok(changes)
}

pub(crate) type Records = HashMap<PartitionKey, PartitionRecord>;

/// Begins a transaction and locks partitions with their work. Returns the partitions that existed and, if the
/// action creates entries, those that it created: no other transaction sees these yet.
async fn lock(
    session: &mut Session,
    keys: &[&PartitionKey],
    creates_by: Option<&AuditContext>,
    doing: &'static str,
) -> Result<(Records, Records)> {
    let columns = KeyColumns::of(keys);
    let Some(audit) = creates_by else {
        return Ok((lock_existing(session, keys, doing).await?, Records::new()));
    };
    let insert = bind!(
        queries::INSERT_PARTITIONS,
        updated_at => &Micros(audit.by.at),
        ..KeyColumns(columns)
    );
    let created = read_created(&session.begin(insert).await?, audit, doing)?;
    let existing: Vec<&PartitionKey> =
        keys.iter().copied().filter(|key| !created.contains_key(key)).collect();
    if existing.is_empty() {
        return Ok((Records::new(), created));
    }
    Ok((lock_existing(session, &existing, doing).await?, created))
}

/// Locks partitions with their work, in the open transaction or a new one. Keys are in their order.
pub(crate) async fn lock_existing(
    session: &mut Session,
    keys: &[&PartitionKey],
    doing: &'static str,
) -> Result<Records> {
    let columns = KeyColumns::of(keys);
    let locks = [
        bind!(queries::LOCK_PARTITIONS, ..KeyColumns(columns)),
        bind!(queries::LOCK_PARTITION_WORK, ..KeyColumns(columns)),
        bind!(queries::PARTITIONS_BY_KEY, ..KeyColumns(columns)),
    ];
    let results = if session.is_in_transaction() {
        session.continue_all(&locks).await?
    } else {
        session.begin_all(&locks).await?
    };
    read_found(&results, doing)
}

fn read_found(results: &[Vec<Row>], doing: &'static str) -> Result<Records> {
    let rows = results.last().map(Vec::as_slice).unwrap_or_default();
    let found: Vec<PartitionRecord> = read_records(rows, doing)?;
    Ok(found.into_iter().map(|record| (record.key.clone(), record)).collect())
}

/// The entries that a query has created, from their ids and keys.
pub(crate) fn read_created(
    rows: &[Row],
    audit: &AuditContext,
    doing: &'static str,
) -> Result<Records> {
    let created = read_rows(rows, doing, |row| {
        let (id, key) = (PartitionId(row.get()?), PartitionKey::from_row(row)?);
        Ok((key.clone(), PartitionRecord::new(id, key, audit.by.at)))
    })?;
    Ok(created.into_iter().collect())
}

/// Writes the changes of locked partitions, and commits if asked to; otherwise the causes of failures are left to the exchange
/// that commits.
pub(crate) async fn apply(
    session: &mut Session,
    writes: &[PartitionWrite],
    commits: bool,
) -> Result<()> {
    redrive_store::failpoint!("postgres.partition.decided");
    let state: Vec<&PartitionRecord> =
        writes.iter().filter(|write| write.state_changed).map(|write| &write.after).collect();
    let removed = |work| matches!(work, WorkWrite::Remove | WorkWrite::Replace);
    let removed: Vec<i64> =
        writes.iter().filter(|write| removed(write.work)).map(|write| write.after.id.0).collect();
    let put = |work| matches!(work, WorkWrite::Put | WorkWrite::Replace);
    let put: Vec<&PartitionRecord> =
        writes.iter().filter(|write| put(write.work)).map(|write| &write.after).collect();
    let attempts: Vec<_> = writes.iter().filter_map(|write| write.attempt.as_ref()).collect();
    let entries: Vec<&JournalEntry> = writes.iter().flat_map(|write| &write.journal).collect();

    let state_columns = StateColumns::of(&state);
    let work_columns = WorkArrays::of(&put);
    let ledger = AttemptColumns::of(&attempts);
    let journal = JournalColumns::of(entries.iter().copied().map(Some));
    let failures = FailureColumns::of(attempts.iter().copied());
    let steps = [
        (state.is_empty(), bind!(queries::WRITE_PARTITIONS, ..StateColumns(state_columns))),
        (removed.is_empty(), bind!(queries::REMOVE_PARTITION_WORK, id => &removed)),
        (put.is_empty(), bind!(queries::PUT_PARTITION_WORK, ..WorkArrays(work_columns))),
        (attempts.is_empty(), bind!(queries::INSERT_ATTEMPTS, ..AttemptColumns(ledger))),
        (entries.is_empty(), bind!(queries::INSERT_JOURNAL, ..JournalColumns(journal))),
        (
            failures.is_empty() || !commits,
            bind!(queries::RECORD_CAUSES, in_ledger => &true, ..FailureColumns(failures)),
        ),
    ];
    let writes: Vec<BoundQuery<'_>> =
        steps.iter().filter(|(empty, _)| !empty).map(|(_, write)| *write).collect();
    if commits {
        session.commit_all(&writes).await.map(drop)
    } else {
        session.continue_all(&writes).await.map(drop)
    }
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
        customer_id: Vec<&'a str>,
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
            customer_id: each(records, |record| record.key.customer_id()),
            kind: each(&request, |request| request.map(|request| request.kind.name())),
            lane: each(&request, |request| request.map(|request| request.lane.name())),
            requested_at: each(&request, |request| {
                request.map(|request| Micros(request.requested_at))
            }),
            requested_by: each(&request, |request| {
                request.map(|request| request.requested_by.as_str())
            }),
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
