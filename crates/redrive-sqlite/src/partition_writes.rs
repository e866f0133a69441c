//! Writes verdicts and control plane actions on partitions.

use std::collections::HashMap;

use redrive_core::{PartitionId, PartitionKey, PartitionRunId, PlanId};
use redrive_store::{
    AuditContext, GateResults, Lane, LeaseRef, NamedPartition, PartitionAction, PartitionChange,
    PartitionFinish, PartitionRecord, PartitionWrite, Result, UnitKind, WorkKind, WorkWrite,
    Written,
};
use rusqlite::{Connection, OptionalExtension, params};

use crate::{
    columns::micros,
    error::Doing,
    gates::settle,
    journal::insert_journal,
    ledger::LedgerRows,
    partition_columns::{by_key, written_date},
    queries,
};

/// Also returns whether gates may let more or fewer partitions through than before.
pub(crate) fn finish_all(
    connection: &Connection,
    finishes: &[PartitionFinish],
) -> Result<(Vec<Written>, bool)> {
    let written: Vec<Written> =
        finishes.iter().map(|one| finish(connection, one)).collect::<Result<_>>()?;
    let Some(first) = finishes.first() else { return Ok((written, false)) };
    let applied = finishes.iter().zip(&written).filter(|(_, it)| **it == Written::Applied);
    let applied: Vec<LeaseRef> = applied.map(|(finish, _)| finish.lease).collect();
    let results = GateResults::of_partitions(finishes);
    let wakes = settle(connection, UnitKind::Partition, results, &applied, &first.worker)?;
    Ok((written, wakes))
}

/// Stale if another worker holds the partition.
fn finish(connection: &Connection, finish: &PartitionFinish) -> Result<Written> {
    let current = by_key(connection, &finish.key)?;
    let Some(write) = current.and_then(|current| finish.write(&current)) else {
        return Ok(Written::Stale);
    };
    apply(connection, &write, "writing verdicts")?;
    Ok(Written::Applied)
}

/// Reads the named partitions, and changes and journals those whose state allows the action.
pub(crate) fn change(
    connection: &Connection,
    action: PartitionAction,
    named: &[NamedPartition],
    order: &AuditContext,
    plan: Option<PlanId>,
) -> Result<Vec<PartitionChange>> {
    let (mut found, mut made) = (HashMap::new(), HashMap::new());
    for NamedPartition { key, .. } in named {
        if action.makes_entries()
            && let Some(new) = make(connection, key, order)?
        {
            redrive_store::failpoint!("sqlite.partition.made");
            made.insert(key.clone(), new);
        } else if let Some(record) = by_key(connection, key)? {
            found.insert(key.clone(), record);
        }
    }
    let mut changes = Vec::with_capacity(named.len());
    for (change, write) in action.changes(named, found, made, order) {
        if let Some(mut write) = write {
            write.journal = write.journal.into_iter().map(|entry| entry.naming(plan)).collect();
            apply(connection, &write, "changing partitions")?;
        }
        changes.push(change);
    }
    Ok(changes)
}

/// `None` if the partition has a row already.
fn make(
    connection: &Connection,
    key: &PartitionKey,
    order: &AuditContext,
) -> Result<Option<PartitionRecord>> {
    const DOING: &str = "adding partitions";
    let date = written_date(key.logical_date());
    let at = micros(order.by.at);
    let params = params![key.source(), key.customer_id(), key.query_name(), date, at];
    let mut insert = connection.prepare_cached(queries::INSERT_PARTITIONS).doing(DOING)?;
    let id = insert.query_row(params, |row| row.get(0)).optional().doing(DOING)?;
    Ok(id.map(|id| PartitionRecord::new(PartitionId(id), key.clone(), order.by.at)))
}

/// Needs no guard: no other transaction has written since the partition was read.
pub(crate) fn apply(
    connection: &Connection,
    write: &PartitionWrite,
    doing: &'static str,
) -> Result<()> {
    let PartitionWrite { after, state_changed, work, attempt, journal } = write;
    if *state_changed {
        write_state(connection, after, doing)?;
        redrive_store::failpoint!("sqlite.partition.state");
    }
    if matches!(work, WorkWrite::Remove | WorkWrite::Replace) {
        let mut remove = connection.prepare_cached(queries::REMOVE_PARTITION_WORK).doing(doing)?;
        remove.execute([after.id.0]).doing(doing)?;
        redrive_store::failpoint!("sqlite.partition.work_gone");
    }
    if matches!(work, WorkWrite::Put | WorkWrite::Replace) {
        put_work(connection, after, doing)?;
        redrive_store::failpoint!("sqlite.partition.work");
    }
    if let Some(attempt) = attempt {
        let mut ledger = LedgerRows::new(connection)?;
        ledger.insert(attempt)?;
        ledger.finish()?;
        redrive_store::failpoint!("sqlite.partition.ledger");
    }
    for entry in journal {
        insert_journal(connection, entry)?;
        redrive_store::failpoint!("sqlite.partition.journal");
    }
    Ok(())
}

fn write_state(
    connection: &Connection,
    after: &PartitionRecord,
    doing: &'static str,
) -> Result<()> {
    let params = params![
        after.id.0,
        after.status.name(),
        after.current_run_id.as_ref().map(PartitionRunId::as_str),
        after.schema_version,
        after.record_count,
        after.attempt_count,
        after.error_message,
        micros(after.updated_at),
    ];
    let mut statement = connection.prepare_cached(queries::WRITE_PARTITIONS).doing(doing)?;
    statement.execute(params).map(drop).doing(doing)
}

fn put_work(connection: &Connection, after: &PartitionRecord, doing: &'static str) -> Result<()> {
    let Some(work) = &after.work else { return Ok(()) };
    let (request, paused) = (work.request.as_ref(), work.paused.as_ref());
    let params = params![
        after.id.0,
        after.key.source(),
        request.map(|request| WorkKind::name(request.kind)),
        request.map(|request| Lane::name(request.lane)),
        request.map(|request| micros(request.requested_at)),
        request.map(|request| &request.requested_by),
        work.run_id.as_ref().map(PartitionRunId::as_str),
        work.lease_owner.as_ref().map(|owner| &owner.0),
        work.lease_epoch.0,
        work.lease_until.map(micros),
        paused.map(|by| micros(by.at)),
        paused.map(|by| &by.actor),
        paused.and_then(|by| by.reason.as_ref()),
        after.key.customer_id(),
    ];
    let mut statement = connection.prepare_cached(queries::PUT_PARTITION_WORK).doing(doing)?;
    statement.execute(params).map(drop).doing(doing)
}
