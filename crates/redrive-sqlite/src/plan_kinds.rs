//! What plans do to units of each kind.

use std::collections::HashMap;

use redrive_core::{RunId, SampleId};
use redrive_store::{
    AttemptRecord, AuditContext, ENDS_PAGE, Error, FirstEnds, ItemMove, ItemRecord, LedgerPlace,
    NamedPartition, Operator, PartitionChange, PartitionRecord, PlanAction, PlanRecord, PlanUnit,
    PlanUnitRecord, PlanUnitWrite, Result, RunChange, RunRecord, SampleChange, SampleRecord,
    UnitKind, Written, item_reset,
};
use rusqlite::{Connection, params};

use crate::{
    columns::{json_ids, micros, read_records},
    error::Doing,
    items::move_all,
    journal::insert_journal,
    operators::change_runs_in,
    partition_writes, queries, samples,
};

const READING: &str = "reading the units of a plan";
const CHANGING: &str = "changing the units of a plan";
const RESTORING: &str = "undoing a plan";

/// The units as they are, by id.
pub(crate) fn found(
    connection: &Connection,
    kind: UnitKind,
    units: &[PlanUnitRecord],
) -> Result<HashMap<i64, PlanUnit>> {
    let found = units_by_id(connection, kind, units.iter().map(|unit| unit.unit_id))?;
    Ok(found.into_iter().map(|unit| (unit.id(), unit)).collect())
}

/// How units ended first that others acted on.
pub(crate) fn first_ends(
    connection: &Connection,
    action: PlanAction,
    units: &[PlanUnitRecord],
    found: &HashMap<i64, PlanUnit>,
) -> Result<FirstEnds> {
    let mut ends = FirstEnds::new(action, units, found);
    while let Some((ids, LedgerPlace { id, stage, attempt })) = ends.next() {
        let (kind, ids) = (action.kind().name(), json_ids(ids));
        let own = params![kind, ids, id, stage, attempt.0, ENDS_PAGE];
        let attempts: Vec<AttemptRecord> =
            read_records(connection, READING, queries::ATTEMPTS_AT, own)?;
        ends.add(&attempts);
    }
    Ok(ends)
}

pub(crate) fn units_by_id(
    connection: &Connection,
    kind: UnitKind,
    ids: impl Iterator<Item = i64>,
) -> Result<Vec<PlanUnit>> {
    let ids = [json_ids(ids)];
    let found = match kind {
        UnitKind::Run => {
            let runs: Vec<RunRecord> =
                read_records(connection, READING, queries::RUN_SNAPSHOTS, ids)?;
            runs.into_iter().map(PlanUnit::Run).collect()
        }
        UnitKind::Item => {
            let items: Vec<ItemRecord> =
                read_records(connection, READING, queries::ITEMS_BY_ID, ids)?;
            items.into_iter().map(PlanUnit::Item).collect()
        }
        UnitKind::Partition => {
            let partitions: Vec<PartitionRecord> =
                read_records(connection, READING, queries::PARTITION_SNAPSHOTS, ids)?;
            partitions.into_iter().map(PlanUnit::Partition).collect()
        }
        UnitKind::Sample => {
            let samples: Vec<SampleRecord> =
                read_records(connection, READING, queries::SAMPLE_SNAPSHOTS, ids)?;
            samples.into_iter().map(PlanUnit::Sample).collect()
        }
    };
    Ok(found)
}

/// Changes the units that were not skipped, as an operator's command does.
pub(crate) fn change(
    connection: &Connection,
    plan: &PlanRecord,
    writes: &[PlanUnitWrite],
    found: &HashMap<i64, PlanUnit>,
    by: &Operator,
) -> Result<()> {
    let changed = writes.iter().filter(|write| write.is_changed());
    let changed: Vec<&PlanUnit> = changed.filter_map(|write| found.get(&write.unit_id)).collect();
    let named = Some(plan.id);
    let done = match plan.action {
        PlanAction::Run(action) => {
            let ids: Vec<RunId> = changed.iter().map(|unit| RunId(unit.id())).collect();
            let states = changed.iter().filter_map(|unit| unit.run_state()).collect();
            let changes = change_runs_in(connection, action, &ids, states, by, named)?;
            changes.iter().all(|change| matches!(change, RunChange::Done(_)))
        }
        PlanAction::ResetItem => {
            let items = changed.iter().filter_map(|unit| unit.as_item());
            let moves: Vec<ItemMove> =
                items.map(|item| item_reset(item, by).naming(plan.id)).collect();
            let written = move_all(connection, &moves)?;
            written.iter().all(|written| *written == Written::Applied)
        }
        PlanAction::Partition(action) | PlanAction::ForcedPartition(action) => {
            let partitions = changed.iter().filter_map(|unit| unit.as_partition());
            let partitions: Vec<NamedPartition> = partitions.map(NamedPartition::from).collect();
            let order = AuditContext::of_plan(plan, by);
            let changes = partition_writes::change(connection, action, &partitions, &order, named)?;
            changes.iter().all(|change| matches!(change, PartitionChange::Done(_)))
        }
        PlanAction::ReprocessSample => {
            let mut done = true;
            for unit in &changed {
                let id = SampleId(unit.id());
                let change = samples::reprocess(connection, id, None, by, named)?;
                done &= change == SampleChange::Done;
            }
            done
        }
    };
    // No other transaction has written since the units were read.
    let refused = || Error::misuse(CHANGING, format!("plan {} was refused a unit", plan.id));
    if done { Ok(()) } else { Err(refused()) }
}

/// Returns units to the state in which the plan found them, and tells which.
pub(crate) fn restore<'a>(
    connection: &Connection,
    plan: &PlanRecord,
    undoable: &[(&'a PlanUnitRecord, &PlanUnit)],
    by: &Operator,
) -> Result<Vec<&'a PlanUnitRecord>> {
    let mut restored = Vec::new();
    for (frozen, unit) in undoable {
        let entry = plan.action.undo_entry(plan.id, frozen, unit, by);
        let done = match unit {
            PlanUnit::Run(_) => restore_run(connection, frozen)?,
            PlanUnit::Item(_) => {
                let before = frozen.item_undo().ok_or_else(|| frozen.bad_undo())?;
                let own = params![frozen.unit_id, before, micros(by.at)];
                let mut restore =
                    connection.prepare_cached(queries::RESTORE_ITEMS).doing(RESTORING)?;
                restore.execute(own).doing(RESTORING)? > 0
            }
            PlanUnit::Partition(now) => {
                let write = frozen.partition_undo(now, entry.clone());
                let write = write.ok_or_else(|| frozen.bad_undo())?;
                partition_writes::apply(connection, &write, RESTORING)?;
                restored.push(*frozen);
                continue;
            }
            PlanUnit::Sample(_) => false,
        };
        if done {
            insert_journal(connection, &entry)?;
            restored.push(*frozen);
        }
    }
    Ok(restored)
}

fn restore_run(connection: &Connection, frozen: &PlanUnitRecord) -> Result<bool> {
    let undo = frozen.run_undo().ok_or_else(|| frozen.bad_undo())?;
    let own = params![
        frozen.unit_id,
        undo.state.status().name(),
        undo.next_retry_at.map(micros),
        undo.retry_count,
        undo.deferrals,
        undo.first_attempt_at.map(micros),
        undo.attempts_at_reset,
    ];
    let mut restore = connection.prepare_cached(queries::RESTORE_RUNS).doing(RESTORING)?;
    Ok(restore.execute(own).doing(RESTORING)? > 0)
}
