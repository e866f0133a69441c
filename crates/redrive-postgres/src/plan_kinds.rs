//! What plans do to units of each kind, in an open transaction that has locked the plan.

use std::collections::{BTreeSet, HashMap, HashSet};

use redrive_core::{PartitionKey, RunId, SampleId};
use redrive_store::{
    AttemptRecord, AuditContext, ENDS_PAGE, Error, FirstEnds, ItemMove, ItemRecord, JournalEntry,
    LedgerPlace, NamedPartition, Operator, PartitionChange, PartitionRecord, PartitionWrite,
    PlanAction, PlanRecord, PlanUnit, PlanUnitRecord, PlanUnitWrite, ReadColumn, Result, RunChange,
    RunRecord, RunUndo, SampleChange, SampleRecord, UnitKind, item_reset,
};

use crate::{
    batch::each,
    bound_query::bind,
    columns::{Micros, read_records, read_rows},
    items::move_locked,
    journal::JournalColumns,
    operators::{change_locked_runs, lock_runs},
    partition_writes::{self, Records},
    queries,
    sample_writes::reprocess_locked,
    session::Session,
};

const READING: &str = "reading the units of a plan";
const CHANGING: &str = "changing the units of a plan";
const RESTORING: &str = "undoing a plan";

type Units = HashMap<i64, PlanUnit>;

/// The units as they are, by id.
pub(crate) async fn found(
    session: &mut Session,
    kind: UnitKind,
    units: &[PlanUnitRecord],
) -> Result<Units> {
    let ids = each(units, |unit| unit.unit_id);
    units_by_id(session, kind, &ids).await.map(by_id)
}

/// How units ended first that others acted on.
pub(crate) async fn first_ends(
    session: &mut Session,
    action: PlanAction,
    units: &[PlanUnitRecord],
    found: &Units,
) -> Result<FirstEnds> {
    let mut ends = FirstEnds::new(action, units, found);
    while let Some((ids, LedgerPlace { id, stage, attempt })) = ends.next() {
        let page = bind!(
            queries::ATTEMPTS_AT,
            kind => &action.kind().name(),
            unit_ids => &ids,
            after_unit => id,
            after_stage => stage,
            after_attempt => &i64::from(attempt.0),
            limit => &i64::from(ENDS_PAGE),
        );
        let attempts: Vec<AttemptRecord> = read_records(&session.query(page).await?, READING)?;
        ends.add(&attempts);
    }
    Ok(ends)
}

pub(crate) async fn units_by_id(
    session: &mut Session,
    kind: UnitKind,
    ids: &[i64],
) -> Result<Vec<PlanUnit>> {
    let found = match kind {
        UnitKind::Run => {
            let rows = session.query(bind!(queries::RUN_SNAPSHOTS, ids => &ids)).await?;
            let runs: Vec<RunRecord> = read_records(&rows, READING)?;
            runs.into_iter().map(PlanUnit::Run).collect()
        }
        UnitKind::Item => {
            let rows = session.query(bind!(queries::ITEMS_BY_ID, ids => &ids)).await?;
            let items: Vec<ItemRecord> = read_records(&rows, READING)?;
            items.into_iter().map(PlanUnit::Item).collect()
        }
        UnitKind::Partition => {
            let rows = session.query(bind!(queries::PARTITION_SNAPSHOTS, ids => &ids)).await?;
            let partitions: Vec<PartitionRecord> = read_records(&rows, READING)?;
            partitions.into_iter().map(PlanUnit::Partition).collect()
        }
        UnitKind::Sample => {
            let rows = session.query(bind!(queries::SAMPLE_SNAPSHOTS, ids => &ids)).await?;
            let samples: Vec<SampleRecord> = read_records(&rows, READING)?;
            samples.into_iter().map(PlanUnit::Sample).collect()
        }
    };
    Ok(found)
}

/// Locks the units in the order of their kind, and returns them as they are.
pub(crate) async fn lock(
    session: &mut Session,
    kind: UnitKind,
    units: &[PlanUnitRecord],
) -> Result<Units> {
    let ids = each(units, |unit| unit.unit_id);
    match kind {
        UnitKind::Run => lock_runs(session, &ids).await?,
        UnitKind::Item => {
            session.query(bind!(queries::LOCK_ITEMS, ids => &ids)).await?;
        }
        UnitKind::Partition => {
            let unlocked = found(session, kind, units).await?;
            let keys: BTreeSet<&PartitionKey> =
                unlocked.values().filter_map(|unit| Some(&unit.as_partition()?.key)).collect();
            let keys: Vec<&PartitionKey> = keys.into_iter().collect();
            let locked = partition_writes::lock_existing(session, &keys, READING).await?;
            return Ok(by_id(locked.into_values().map(PlanUnit::Partition).collect()));
        }
        UnitKind::Sample => {
            let rows = session
                .query(bind!(queries::LOCK_SAMPLES, with_data => &false, ids => &ids))
                .await?;
            let samples: Vec<SampleRecord> = read_records(&rows, READING)?;
            return Ok(by_id(samples.into_iter().map(PlanUnit::Sample).collect()));
        }
    }
    found(session, kind, units).await
}

fn by_id(units: Vec<PlanUnit>) -> Units {
    units.into_iter().map(|unit| (unit.id(), unit)).collect()
}

/// Changes the units that were not skipped, as an operator's command does.
pub(crate) async fn change(
    session: &mut Session,
    plan: &PlanRecord,
    writes: &[PlanUnitWrite],
    found: &Units,
    by: &Operator,
) -> Result<()> {
    let changed = writes.iter().filter(|write| write.is_changed());
    let changed: Vec<&PlanUnit> = changed.filter_map(|write| found.get(&write.unit_id)).collect();
    if changed.is_empty() {
        return Ok(());
    }
    let named = Some(plan.id);
    let done = match plan.action {
        PlanAction::Run(action) => {
            let ids = each(&changed, |unit| RunId(unit.id()));
            let states = changed.iter().filter_map(|unit| unit.run_state()).collect();
            let changes = change_locked_runs(session, action, &ids, states, by, named).await?;
            changes.iter().all(|change| matches!(change, RunChange::Done(_)))
        }
        PlanAction::ResetItem => {
            let items = changed.iter().filter_map(|unit| unit.as_item());
            let moves: Vec<ItemMove> =
                items.map(|item| item_reset(item, by).naming(plan.id)).collect();
            move_locked(session, &moves).await? == moves.len()
        }
        PlanAction::Partition(action) | PlanAction::ForcedPartition(action) => {
            let partitions: Vec<&PartitionRecord> =
                changed.iter().filter_map(|unit| unit.as_partition()).collect();
            let named_partitions = each(&partitions, |partition| NamedPartition::from(*partition));
            let records: Records =
                partitions.iter().map(|it| (it.key.clone(), (*it).clone())).collect();
            let order = AuditContext::of_plan(plan, by);
            let changes = action.changes(&named_partitions, records, Records::new(), &order);
            let (changes, writes): (Vec<_>, Vec<_>) = changes.into_iter().unzip();
            let naming = |write: PartitionWrite| PartitionWrite {
                journal: write.journal.into_iter().map(|entry| entry.naming(named)).collect(),
                ..write
            };
            let writes: Vec<PartitionWrite> = writes.into_iter().flatten().map(naming).collect();
            partition_writes::apply(session, &writes, false).await?;
            changes.iter().all(|change| matches!(change, PartitionChange::Done(_)))
        }
        PlanAction::ReprocessSample => {
            let ids = each(&changed, |unit| SampleId(unit.id()));
            let locked = changed.iter().filter_map(|unit| unit.as_sample()).cloned().collect();
            let changes = reprocess_locked(session, &ids, &[], locked, by, named).await?;
            changes.iter().all(|change| *change == SampleChange::Done)
        }
    };
    // The units are locked, so this cannot happen. Returning without a commit rolls back.
    let refused = || Error::misuse(CHANGING, format!("plan {} was refused a unit", plan.id));
    if done { Ok(()) } else { Err(refused()) }
}

/// Returns units to the state in which the plan found them, and tells which.
pub(crate) async fn restore<'a>(
    session: &mut Session,
    plan: &PlanRecord,
    undoable: &[(&'a PlanUnitRecord, &PlanUnit)],
    by: &Operator,
) -> Result<Vec<&'a PlanUnitRecord>> {
    let all = each(undoable, |(frozen, _)| *frozen);
    if undoable.is_empty() {
        return Ok(all);
    }
    let entry = |(frozen, unit): &(&PlanUnitRecord, &PlanUnit)| {
        plan.action.undo_entry(plan.id, frozen, unit, by)
    };
    match plan.action.kind() {
        UnitKind::Run => restore_runs(session, &all, &each(undoable, entry)).await?,
        UnitKind::Item => {
            let restored = restore_items(session, &all, by).await?;
            let items = undoable.iter().filter(|(frozen, _)| restored.contains(&frozen.unit_id));
            let entries: Vec<JournalEntry> = items.map(entry).collect();
            let journal = JournalColumns::of(entries.iter().map(Some));
            session.query(bind!(queries::INSERT_JOURNAL, ..JournalColumns(journal))).await?;
            return Ok(all.into_iter().filter(|it| restored.contains(&it.unit_id)).collect());
        }
        UnitKind::Partition => {
            let undo = |pair: &(&PlanUnitRecord, &PlanUnit)| {
                let (frozen, unit) = pair;
                let write =
                    unit.as_partition().and_then(|now| frozen.partition_undo(now, entry(pair)));
                write.ok_or_else(|| frozen.bad_undo())
            };
            let writes = undoable.iter().map(undo).collect::<Result<Vec<_>>>()?;
            partition_writes::apply(session, &writes, false).await?;
        }
        UnitKind::Sample => return Ok(Vec::new()),
    }
    Ok(all)
}

async fn restore_items(
    session: &mut Session,
    undoable: &[&PlanUnitRecord],
    by: &Operator,
) -> Result<HashSet<i64>> {
    let before = |frozen: &&PlanUnitRecord| frozen.item_undo().ok_or_else(|| frozen.bad_undo());
    let before = undoable.iter().map(before).collect::<Result<Vec<i64>>>()?;
    let restore = bind!(
        queries::RESTORE_ITEMS,
        id => &each(undoable, |frozen| frozen.unit_id),
        attempts_at_reset => &before,
        updated_at => &Micros(by.at),
    );
    let rows = session.query(restore).await?;
    Ok(read_rows(&rows, RESTORING, |row| row.get())?.into_iter().collect())
}

async fn restore_runs(
    session: &mut Session,
    undoable: &[&PlanUnitRecord],
    entries: &[JournalEntry],
) -> Result<()> {
    let undo = |frozen: &&PlanUnitRecord| frozen.run_undo().ok_or_else(|| frozen.bad_undo());
    let undo = undoable.iter().map(undo).collect::<Result<Vec<RunUndo>>>()?;
    let journal = JournalColumns::of(entries.iter().map(Some));
    let restore = bind!(
        queries::RESTORE_RUNS,
        id => &each(undoable, |frozen| frozen.unit_id),
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
