//! Implements [`Plans`].

use std::collections::HashSet;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{PlanBatch, PlanId, PlanStatus};
use redrive_store::{
    Error, LeaseRef, NEVER_STARTED, NewPlan, Operator, PlanAction, PlanChange, PlanClaim,
    PlanCountChange, PlanEnd, PlanGroup, PlanOrder, PlanOutcome, PlanOutcomeCount, PlanRecord,
    PlanUnit, PlanUnitCount, PlanUnitRecord, PlanUnitWrite, PlannedUnit, Plans, Result, StepPages,
    UnitKind, WorkerId, Written, listed_counts, refused_counts,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::{
    SqliteStore,
    columns::{json_ids, json_list, micros, read_records},
    error::Doing,
    journal::insert_journal,
    plan_kinds::{change, first_ends, found, restore, units_by_id},
    queries,
};

const READING: &str = "reading plans";
const WRITING: &str = "writing plans";

#[async_trait]
impl Plans for SqliteStore {
    async fn create_plan(&self, plan: &NewPlan) -> Result<PlanId> {
        let plan = NewPlan { by: plan.by.cleaned(), ..plan.clone() };
        self.write(move |connection| {
            let (action, options) = (plan.action.name(), plan.action.options().to_string());
            let by = &plan.by;
            let (selection, settings) = (&plan.selection, plan.settings_json());
            let own =
                params![action, options, selection, settings, micros(by.at), by.actor, by.reason];
            let mut insert = connection.prepare_cached(queries::INSERT_PLAN).doing(WRITING)?;
            let id = PlanId(insert.query_row(own, |row| row.get(0)).doing(WRITING)?);
            redrive_store::failpoint!("sqlite.plan.created");
            insert_journal(connection, &plan.journal_entry(id))?;
            Ok(id)
        })
        .await
    }

    async fn add_plan_units(&self, id: PlanId, units: &[PlannedUnit]) -> Result<Written> {
        let units = units.to_vec();
        self.write(move |connection| {
            let Some(mut plan) = draft(connection, id)? else { return Ok(Written::Stale) };
            let mut insert =
                connection.prepare_cached(queries::INSERT_PLAN_UNITS).doing(WRITING)?;
            let (mut added, begins) = (Vec::new(), plan.begins_counts());
            for unit in &units {
                let PlannedUnit { unit_id, state, version, cause, refusal } = unit;
                let own = params![id.0, unit_id, state, version, cause, refusal];
                if insert.execute(own).doing(WRITING)? > 0 {
                    added.push(unit);
                }
            }
            plan.counts.total += added.len() as u64;
            count(connection, id, &listed_counts(added.into_iter()), begins)?;
            write_plan(connection, &plan)?;
            Ok(Written::Applied)
        })
        .await
    }

    async fn freeze_plan(&self, id: PlanId, at: Timestamp) -> Result<Written> {
        self.write(move |connection| {
            let Some(mut plan) = draft(connection, id)? else { return Ok(Written::Stale) };
            plan.frozen_at = Some(at);
            write_plan(connection, &plan)?;
            Ok(Written::Applied)
        })
        .await
    }

    async fn discard_plan(&self, id: PlanId, limit: u32, by: &Operator) -> Result<bool> {
        let by = by.cleaned();
        self.write(move |connection| {
            let plan = read_plan(connection, id)?;
            let Some(mut plan) = plan.filter(|plan| plan.status == PlanStatus::Draft) else {
                return Ok(false);
            };
            let removed = remove_units(connection, id, limit)?;
            plan.count_discarded(removed.len() as u64);
            write_plan(connection, &plan)?;
            if removed.is_empty() {
                delete_plan(connection, id)?;
                insert_journal(connection, &plan.discarded(&by))?;
            }
            Ok(!removed.is_empty())
        })
        .await
    }

    async fn plans_by_id(&self, ids: &[PlanId]) -> Result<Vec<PlanRecord>> {
        let ids = ids.to_vec();
        self.read(move |connection| read_plans(connection, &ids)).await
    }

    async fn plans_page(&self, before: PlanId, limit: u32) -> Result<Vec<PlanRecord>> {
        self.read(move |connection| {
            let own = params![before.0, limit, json_list(&PlanAction::NAMES)];
            read_records(connection, READING, queries::PLANS_PAGE, own)
        })
        .await
    }

    async fn live_plans(&self, limit: u32) -> Result<Vec<PlanRecord>> {
        self.read(move |connection| {
            let own = params![limit, json_list(&PlanAction::NAMES)];
            read_records(connection, READING, queries::LIVE_PLANS, own)
        })
        .await
    }

    async fn plan_units_page(
        &self,
        id: PlanId,
        outcome: Option<PlanOutcome>,
        after: i64,
        limit: u32,
    ) -> Result<Vec<PlanUnitRecord>> {
        self.read(move |connection| units_page(connection, id, outcome, after, limit)).await
    }

    async fn plan_unit_counts(&self, id: PlanId) -> Result<Vec<PlanUnitCount>> {
        let kept = self.read(move |connection| {
            read_records(connection, READING, queries::PLAN_COUNTS, [id.0])
        });
        let kept: Vec<PlanUnitCount> = kept.await?;
        if kept.is_empty() { self.count_plan_units(id).await } else { Ok(kept) }
    }

    async fn count_plan_units(&self, id: PlanId) -> Result<Vec<PlanUnitCount>> {
        self.read(move |connection| {
            read_records(connection, READING, queries::COUNT_PLAN_UNITS, [id.0])
        })
        .await
    }

    async fn plan_outcomes(&self, id: PlanId, periods: u32) -> Result<Vec<PlanOutcomeCount>> {
        self.read(move |connection| {
            read_records(connection, READING, queries::PLAN_OUTCOMES, params![id.0, periods.max(1)])
        })
        .await
    }

    async fn units_by_id(&self, kind: UnitKind, ids: &[i64]) -> Result<Vec<PlanUnit>> {
        let ids = ids.to_vec();
        self.read(move |connection| units_by_id(connection, kind, ids.iter().copied())).await
    }

    async fn refuse_plan_units(
        &self,
        lease: LeaseRef,
        refusals: &[(i64, String)],
    ) -> Result<Written> {
        let refusals = refusals.to_vec();
        let write = self.write_held(lease, move |connection, plan| {
            let mut refuse =
                connection.prepare_cached(queries::REFUSE_PLAN_UNITS).doing(WRITING)?;
            let mut refused: Vec<(String, Option<String>, &String)> = Vec::new();
            for (unit_id, refusal) in &refusals {
                let own = params![plan.id.0, unit_id, refusal];
                let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, refusal));
                refused.extend(refuse.query_row(own, read).optional().doing(WRITING)?);
            }
            let refused =
                refused.iter().map(|(state, cause, why)| (state.as_str(), cause.as_ref(), *why));
            count(connection, plan.id, &refused_counts(refused), false)
        });
        Ok(Written::from_changed(write.await?.is_some()))
    }

    async fn change_plan(
        &self,
        id: PlanId,
        order: &PlanOrder,
        by: &Operator,
    ) -> Result<PlanChange> {
        let (order, by) = (*order, by.cleaned());
        let write = self.write(move |connection| {
            let Some(mut plan) = read_plan(connection, id)? else { return Ok(PlanChange::Unknown) };
            let before = plan.status;
            let entry = match plan.order(&order, &by) {
                Ok(entry) => entry,
                Err(refused) => return Ok(refused),
            };
            write_plan(connection, &plan)?;
            redrive_store::failpoint!("sqlite.plan.ordered");
            insert_journal(connection, &entry)?;
            Ok(PlanChange::Done(before))
        });
        let change = write.await?;
        self.wakes.wake_if(matches!(change, PlanChange::Done(_)));
        Ok(change)
    }

    async fn claim_plans(&self, claim: &PlanClaim) -> Result<Vec<PlanRecord>> {
        let PlanClaim { owner, lease_until, now, only, except, limit } = claim.clone();
        let write = self.write(move |connection| {
            let (until, only) = (micros(lease_until), only.map(|id| id.0));
            let known = json_list(&PlanAction::NAMES);
            let except = json_ids(except.iter().map(|id| id.0));
            let own = params![owner.0, until, micros(now), limit, only, known, except];
            read_records(connection, "claiming plans", queries::CLAIM_PLANS, own)
        });
        let mut claimed: Vec<PlanRecord> = write.await?;
        // RETURNING does not guarantee an order.
        claimed.sort_unstable_by_key(|plan| plan.id);
        Ok(claimed)
    }

    async fn renew_plan(&self, lease: LeaseRef, until: Timestamp) -> Result<Option<PlanRecord>> {
        self.write_held(lease, move |_, plan| {
            plan.lease_until = plan.lease_until.max(Some(until));
            Ok(())
        })
        .await
    }

    async fn release_plan(&self, lease: LeaseRef) -> Result<Written> {
        let released = self.write_held(lease, |_, plan| {
            (plan.lease_owner, plan.lease_until) = (None, None);
            Ok(())
        });
        Ok(Written::from_changed(released.await?.is_some()))
    }

    async fn step_plan(
        &self,
        lease: LeaseRef,
        batch: &PlanBatch,
        at: Timestamp,
    ) -> Result<Option<PlanRecord>> {
        let (batch, clock) = (*batch, self.clock.clone());
        let write = self.write_held(lease, move |connection, plan| {
            if !plan.expects(&batch) {
                return Ok(());
            }
            let (mut pages, mut writes) = (StepPages::new(&batch, plan.action.kind()), Vec::new());
            let mut read = Vec::new();
            let (mut after, by) = (plan.last_unit, plan.operator(at));
            while let Some((page, most)) = pages.next() {
                let units = units_page(connection, plan.id, None, after, page)?;
                let found = found(connection, plan.action.kind(), &units)?;
                let decided = plan.action.decide(&units, &found, most);
                change(connection, plan, &decided, &found, &by)?;
                pages.took(units.len(), &decided);
                after = units.last().map_or(after, |unit| unit.unit_id);
                writes.extend(decided);
                read.extend(units);
            }
            redrive_store::failpoint!("sqlite.plan.changed");
            write_units(connection, plan, &read, &writes, at)?;
            redrive_store::failpoint!("sqlite.plan.units");
            plan.count_step(&writes, &batch, clock());
            Ok(())
        });
        let stepped = write.await?;
        redrive_store::failpoint!("sqlite.plan.stepped");
        self.wakes.wake_if(stepped.is_some());
        Ok(stepped)
    }

    async fn settle_plan(
        &self,
        lease: LeaseRef,
        after: i64,
        limit: u32,
        at: Timestamp,
    ) -> Result<Option<(PlanRecord, Option<i64>)>> {
        // Most units have not ended yet, and looking for those that have must not hold up the workers' writes.
        let read = self.read(move |connection| {
            let Some(plan) = held(connection, lease)? else { return Ok(None) };
            let units = pending(connection, plan.id, after, limit)?;
            let found = found(connection, plan.action.kind(), &units)?;
            let full = units.len() >= limit as usize;
            let last = units.last().filter(|_| full).map(|unit| unit.unit_id);
            let first = first_ends(connection, plan.action, &units, &found)?;
            Ok(Some((plan.action.outcomes(&units, &found, &first), plan, last)))
        });
        let Some((ended, plan, last)) = read.await? else { return Ok(None) };
        if ended.is_empty() {
            return Ok(Some((plan, last)));
        }
        let write = self.write_held(lease, move |connection, plan| {
            let units = pending(connection, plan.id, after, limit)?;
            let still: HashSet<i64> = units.iter().map(|unit| unit.unit_id).collect();
            let mut ended = ended.clone();
            ended.retain(|write| still.contains(&write.unit_id));
            write_units(connection, plan, &units, &ended, at)?;
            plan.count_outcomes(&ended);
            Ok(())
        });
        let settled = write.await?;
        redrive_store::failpoint!("sqlite.plan.settled");
        Ok(settled.map(|plan| (plan, last)))
    }

    async fn undo_plan(
        &self,
        lease: LeaseRef,
        limit: u32,
        at: Timestamp,
    ) -> Result<Option<PlanRecord>> {
        let write = self.write_held(lease, move |connection, plan| {
            let Some(after) = plan.undo_unit else { return Ok(()) };
            let units = pending(connection, plan.id, after, limit)?;
            let found = found(connection, plan.action.kind(), &units)?;
            let names: Vec<String> = found.values().map(|unit| unit.unit()).collect();
            let own = [json_list(&names), json_list(&NEVER_STARTED)];
            let newest = read_records(connection, READING, queries::NEWEST_ENTRIES, own)?;
            let newest = newest.into_iter().collect();
            let undoable = plan.action.undoable(plan.id, &units, &found, &newest);
            let restored = restore(connection, plan, &undoable, &plan.operator(at))?;
            redrive_store::failpoint!("sqlite.plan.restored");
            let writes: Vec<PlanUnitWrite> =
                restored.iter().map(|frozen| frozen.undone()).collect();
            write_units(connection, plan, &units, &writes, at)?;
            let full = units.len() >= limit as usize;
            plan.undo_unit = units.last().filter(|_| full).map(|unit| unit.unit_id);
            plan.count_outcomes(&writes);
            Ok(())
        });
        let undone = write.await?;
        redrive_store::failpoint!("sqlite.plan.undone");
        Ok(undone)
    }

    async fn end_plan(
        &self,
        lease: LeaseRef,
        end: &PlanEnd,
        at: Timestamp,
    ) -> Result<Option<PlanRecord>> {
        let end = end.clone();
        let write = self.write_held(lease, move |connection, plan| {
            let worker = plan.lease_owner.clone().unwrap_or(WorkerId(String::new()));
            if let Ok(entry) = plan.end(&end, at, &worker.0) {
                insert_journal(connection, &entry)?;
            }
            Ok(())
        });
        let ended = write.await?;
        redrive_store::failpoint!("sqlite.plan.ended");
        Ok(ended)
    }
}

impl SqliteStore {
    /// Changes a plan that is held under a lease, and returns it.
    async fn write_held(
        &self,
        lease: LeaseRef,
        mut work: impl FnMut(&Connection, &mut PlanRecord) -> Result<()> + Send + 'static,
    ) -> Result<Option<PlanRecord>> {
        self.write(move |connection| {
            let Some(mut plan) = held(connection, lease)? else { return Ok(None) };
            work(connection, &mut plan)?;
            write_plan(connection, &plan)?;
            Ok(Some(plan))
        })
        .await
    }
}

fn read_plans(connection: &Connection, ids: &[PlanId]) -> Result<Vec<PlanRecord>> {
    let ids = json_ids(ids.iter().map(|id| id.0));
    read_records(connection, READING, queries::PLANS_BY_ID, [ids])
}

pub(crate) fn read_plan(connection: &Connection, id: PlanId) -> Result<Option<PlanRecord>> {
    Ok(read_plans(connection, &[id])?.pop())
}

/// A draft whose list of units is not complete.
fn draft(connection: &Connection, id: PlanId) -> Result<Option<PlanRecord>> {
    let plan = read_plan(connection, id)?;
    Ok(plan.filter(|plan| plan.status == PlanStatus::Draft && plan.frozen_at.is_none()))
}

fn held(connection: &Connection, lease: LeaseRef) -> Result<Option<PlanRecord>> {
    Ok(read_plan(connection, PlanId(lease.id))?.filter(|plan| plan.is_held_under(lease)))
}

fn units_page(
    connection: &Connection,
    id: PlanId,
    outcome: Option<PlanOutcome>,
    after: i64,
    limit: u32,
) -> Result<Vec<PlanUnitRecord>> {
    // The index has the pending units alone.
    if outcome == Some(PlanOutcome::Pending) {
        return pending(connection, id, after, limit);
    }
    let own = params![id.0, after, limit, outcome.map(PlanOutcome::name)];
    read_records(connection, READING, queries::PLAN_UNITS_PAGE, own)
}

/// Removes the first units of a plan and its counts, and returns the units.
pub(crate) fn remove_units(
    connection: &Connection,
    id: PlanId,
    limit: u32,
) -> Result<Vec<PlanUnitRecord>> {
    let units = units_page(connection, id, None, 0, limit)?;
    if let Some(last) = units.last() {
        let mut delete = connection.prepare_cached(queries::DELETE_PLAN_UNITS).doing(WRITING)?;
        delete.execute([id.0, last.unit_id]).doing(WRITING)?;
        let mut uncount = connection.prepare_cached(queries::DELETE_PLAN_COUNTS).doing(WRITING)?;
        uncount.execute([id.0]).doing(WRITING)?;
    }
    Ok(units)
}

pub(crate) fn delete_plan(connection: &Connection, id: PlanId) -> Result<()> {
    let mut delete = connection.prepare_cached(queries::DELETE_PLAN).doing(WRITING)?;
    delete.execute([id.0]).map(drop).doing(WRITING)
}

fn pending(
    connection: &Connection,
    id: PlanId,
    after: i64,
    limit: u32,
) -> Result<Vec<PlanUnitRecord>> {
    read_records(connection, READING, queries::PENDING_PLAN_UNITS, params![id.0, after, limit])
}

pub(crate) fn write_plan(connection: &Connection, plan: &PlanRecord) -> Result<()> {
    let counts = &plan.counts;
    let own = params![
        plan.id.0,
        plan.settings_json(),
        plan.status.name(),
        plan.ordered_by,
        plan.ordered_reason,
        plan.frozen_at.map(micros),
        plan.started_at.map(micros),
        plan.ended_at.map(micros),
        plan.stop_reason,
        counts.total,
        counts.changed,
        counts.skipped,
        counts.pending,
        counts.recovered,
        counts.same_cause,
        counts.other_cause,
        plan.superseded,
        plan.undone,
        plan.last_unit,
        plan.undo_unit,
        plan.timing.ramp_from.map(micros),
        plan.timing.next_at.map(micros),
        plan.lease_owner.as_ref().map(|owner| &owner.0),
        plan.lease_until.map(micros),
        plan.reason,
    ];
    let mut write = connection.prepare_cached(queries::WRITE_PLAN).doing(WRITING)?;
    write.execute(own).map(drop).doing(WRITING)
}

/// Writes what became of units that were read in this transaction.
fn write_units(
    connection: &Connection,
    plan: &PlanRecord,
    units: &[PlanUnitRecord],
    writes: &[PlanUnitWrite],
    at: Timestamp,
) -> Result<()> {
    let id = plan.id;
    let mut update = connection.prepare_cached(queries::WRITE_PLAN_UNITS).doing(WRITING)?;
    for write in writes {
        let PlanUnitWrite { unit_id, outcome, reason, new_cause, undo } = write;
        let own = params![id.0, unit_id, outcome.name(), reason, micros(at), new_cause, undo];
        if update.execute(own).doing(WRITING)? != 1 {
            let problem = format!("plan {id} has no unit {unit_id}");
            return Err(Error::misuse(WRITING, problem));
        }
    }
    count(connection, id, &plan.count_changes(units, writes, at), false)
}

/// Counts units that are alike. `begins` says that the plan has no counts yet because it has no units.
fn count(
    connection: &Connection,
    id: PlanId,
    changes: &[PlanCountChange],
    begins: bool,
) -> Result<()> {
    let mut add = connection.prepare_cached(queries::ADD_PLAN_COUNTS).doing(WRITING)?;
    for PlanCountChange { group, units } in changes {
        let PlanGroup { state, cause, refusal, outcome, new_cause, ended_from } = group;
        let (key, outcome) = (group.key(), outcome.map(PlanOutcome::name));
        let own = params![
            id.0, key, state, cause, refusal, outcome, new_cause, ended_from, units, begins
        ];
        add.execute(own).doing(WRITING)?;
    }
    Ok(())
}
