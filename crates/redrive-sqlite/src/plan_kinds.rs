//! What plans do to units of each kind.

use std::collections::HashMap;

use redrive_core::RunId;
use redrive_store::{
    Error, Operator, PlanAction, PlanRecord, PlanUnit, PlanUnitRecord, PlanUnitWrite, Result,
    RunChange, RunRecord, UnitKind,
};
use rusqlite::{Connection, params};

use crate::{
    columns::{json_ids, micros, read_records},
    error::Doing,
    journal::insert_journal,
    operators::change_runs,
    queries,
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
    let ids = [json_ids(units.iter().map(|unit| unit.unit_id))];
    let found: Vec<PlanUnit> = match kind {
        UnitKind::Run => {
            let runs: Vec<RunRecord> =
                read_records(connection, READING, queries::RUN_SNAPSHOTS, ids)?;
            runs.into_iter().map(PlanUnit::Run).collect()
        }
        UnitKind::Item | UnitKind::Partition | UnitKind::Sample => Vec::new(),
    };
    Ok(found.into_iter().map(|unit| (unit.id(), unit)).collect())
}

/// Changes the units that were not skipped, as an operator's command does.
pub(crate) fn change(
    connection: &Connection,
    plan: &PlanRecord,
    writes: &[PlanUnitWrite],
    _found: &HashMap<i64, PlanUnit>,
    by: &Operator,
) -> Result<()> {
    let changed = writes.iter().filter(|write| write.is_changed()).map(|write| write.unit_id);
    match plan.action {
        PlanAction::Run(action) => {
            let ids: Vec<RunId> = changed.map(RunId).collect();
            let changes = change_runs(connection, action, &ids, by, Some(plan.id))?;
            match changes.iter().find(|change| !matches!(change, RunChange::Done(_))) {
                None => Ok(()),
                // No other transaction has written since the runs were read.
                Some(change) => Err(Error::misuse(CHANGING, format!("{change:?}"))),
            }
        }
        PlanAction::ResetItem | PlanAction::Partition(_) | PlanAction::ReprocessSample => {
            Err(Error::misuse(CHANGING, format!("{} is not for plans", plan.action.name())))
        }
    }
}

/// Returns units to the state in which the plan found them.
pub(crate) fn restore(
    connection: &Connection,
    plan: &PlanRecord,
    undoable: &[(&PlanUnitRecord, &PlanUnit)],
    by: &Operator,
) -> Result<()> {
    for (frozen, unit) in undoable {
        match unit {
            PlanUnit::Run(_) => restore_run(connection, frozen)?,
            PlanUnit::Item(_) | PlanUnit::Partition(_) | PlanUnit::Sample(_) => {}
        }
        insert_journal(connection, &plan.action.undo_entry(plan.id, frozen, unit, by))?;
    }
    Ok(())
}

fn restore_run(connection: &Connection, frozen: &PlanUnitRecord) -> Result<()> {
    let undo = frozen.run_undo().ok_or_else(|| {
        Error::bad_value(RESTORING, "undo", frozen.undo.clone().unwrap_or_default())
    })?;
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
    restore.execute(own).map(drop).doing(RESTORING)
}
