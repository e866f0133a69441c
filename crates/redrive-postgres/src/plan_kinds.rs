//! What plans do to units of each kind, in an open transaction that has locked the plan.

use std::collections::HashMap;

use redrive_core::RunId;
use redrive_store::{
    Error, JournalEntry, Operator, PlanAction, PlanRecord, PlanUnit, PlanUnitRecord, PlanUnitWrite,
    Result, RunChange, RunRecord, RunUndo, UnitKind,
};

use crate::{
    batch::each,
    bound_query::bind,
    columns::{Micros, read_records},
    journal::JournalColumns,
    operators::{change_locked_runs, lock_runs},
    queries,
    session::Session,
};

const READING: &str = "reading the units of a plan";
const CHANGING: &str = "changing the units of a plan";
const RESTORING: &str = "undoing a plan";

pub(crate) async fn lock(
    session: &mut Session,
    kind: UnitKind,
    units: &[PlanUnitRecord],
) -> Result<()> {
    let ids = each(units, |unit| unit.unit_id);
    match kind {
        UnitKind::Run => lock_runs(session, &ids).await,
        UnitKind::Item | UnitKind::Partition | UnitKind::Sample => Ok(()),
    }
}

/// The units as they are, by id.
pub(crate) async fn found(
    session: &mut Session,
    kind: UnitKind,
    units: &[PlanUnitRecord],
) -> Result<HashMap<i64, PlanUnit>> {
    let ids = each(units, |unit| unit.unit_id);
    let found: Vec<PlanUnit> = match kind {
        UnitKind::Run => {
            let rows = session.query(bind!(queries::RUN_SNAPSHOTS, ids => &ids)).await?;
            let runs: Vec<RunRecord> = read_records(&rows, READING)?;
            runs.into_iter().map(PlanUnit::Run).collect()
        }
        UnitKind::Item | UnitKind::Partition | UnitKind::Sample => Vec::new(),
    };
    Ok(found.into_iter().map(|unit| (unit.id(), unit)).collect())
}

/// Changes the units that were not skipped, as an operator's command does.
pub(crate) async fn change(
    session: &mut Session,
    plan: &PlanRecord,
    writes: &[PlanUnitWrite],
    by: &Operator,
) -> Result<()> {
    let changed = writes.iter().filter(|write| write.is_changed()).map(|write| write.unit_id);
    match plan.action {
        PlanAction::Run(action) => {
            let ids: Vec<RunId> = changed.map(RunId).collect();
            let changes = change_locked_runs(session, action, &ids, by, Some(plan.id)).await?;
            match changes.iter().find(|change| !matches!(change, RunChange::Done(_))) {
                None => Ok(()),
                // The runs are locked, so this cannot happen. Returning without a commit rolls back.
                Some(change) => Err(Error::misuse(CHANGING, format!("{change:?}"))),
            }
        }
        PlanAction::ResetItem | PlanAction::Partition(_) | PlanAction::ReprocessSample => {
            Err(Error::misuse(CHANGING, format!("{} is not for plans", plan.action.name())))
        }
    }
}

/// Returns units to the state in which the plan found them.
pub(crate) async fn restore(
    session: &mut Session,
    plan: &PlanRecord,
    undoable: &[(&PlanUnitRecord, &PlanUnit)],
    by: &Operator,
) -> Result<()> {
    if undoable.is_empty() {
        return Ok(());
    }
    let entries =
        each(undoable, |(frozen, unit)| plan.action.undo_entry(plan.id, frozen, unit, by));
    match plan.action.kind() {
        UnitKind::Run => restore_runs(session, undoable, &entries).await,
        UnitKind::Item | UnitKind::Partition | UnitKind::Sample => Ok(()),
    }
}

async fn restore_runs(
    session: &mut Session,
    undoable: &[(&PlanUnitRecord, &PlanUnit)],
    entries: &[JournalEntry],
) -> Result<()> {
    let undo = |(frozen, _): &(&PlanUnitRecord, &PlanUnit)| {
        frozen.run_undo().ok_or_else(|| {
            Error::bad_value(RESTORING, "undo", frozen.undo.clone().unwrap_or_default())
        })
    };
    let undo = undoable.iter().map(undo).collect::<Result<Vec<RunUndo>>>()?;
    let journal = JournalColumns::of(entries.iter().map(Some));
    let restore = bind!(
        queries::RESTORE_RUNS,
        id => &each(undoable, |(frozen, _)| frozen.unit_id),
        status => &each(&undo, |undo| undo.state.status().name()),
        next_retry_at => &each(&undo, |undo| undo.next_retry_at.map(Micros)),
        retry_count => &each(&undo, |undo| i64::from(undo.retry_count)),
        deferrals => &each(&undo, |undo| i64::from(undo.deferrals)),
        first_attempt_at => &each(&undo, |undo| undo.first_attempt_at.map(Micros)),
        attempts_at_reset => &each(&undo, |undo| i64::from(undo.attempts_at_reset)),
        ..JournalColumns(journal)
    );
    let restored = session.query(restore).await?.len();
    if restored == undoable.len() {
        return Ok(());
    }
    // The runs are locked, so this cannot happen. Returning without a commit rolls back.
    let problem = format!("{restored} of {} runs were restored", undoable.len());
    Err(Error::misuse(RESTORING, problem))
}
