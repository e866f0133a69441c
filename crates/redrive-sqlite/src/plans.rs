//! Implements [`Plans`].

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{PlanBatch, PlanId, PlanStatus};
use redrive_store::{
    Error, LeaseRef, NewPlan, Operator, PlanChange, PlanClaim, PlanEnd, PlanOrder, PlanOutcome,
    PlanRecord, PlanTime, PlanUnitCount, PlanUnitRecord, PlanUnitWrite, PlannedUnit, Plans, Result,
    WorkerId, Written,
};
use rusqlite::{Connection, params};

use crate::{
    SqliteStore,
    columns::{json_ids, json_list, micros, read_records},
    error::Doing,
    journal::insert_journal,
    plan_kinds::{change, found, restore},
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
            let own = params![action, options, plan.selection, micros(by.at), by.actor, by.reason];
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
            for unit in &units {
                let PlannedUnit { unit_id, state, version, cause, refusal } = unit;
                let own = params![id.0, unit_id, state, version, cause, refusal];
                plan.counts.total += insert.execute(own).doing(WRITING)? as u64;
            }
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

    async fn discard_plan(&self, id: PlanId, limit: u32) -> Result<bool> {
        self.write(move |connection| {
            let status = read_plan(connection, id)?.map(|plan| plan.status);
            if status != Some(PlanStatus::Draft) {
                return Ok(false);
            }
            let mut units =
                connection.prepare_cached(queries::DISCARD_PLAN_UNITS).doing(WRITING)?;
            if units.execute(params![id.0, limit]).doing(WRITING)? > 0 {
                return Ok(true);
            }
            let mut plan = connection.prepare_cached(queries::DISCARD_PLAN).doing(WRITING)?;
            plan.execute([id.0]).doing(WRITING)?;
            Ok(false)
        })
        .await
    }

    async fn plans_by_id(&self, ids: &[PlanId]) -> Result<Vec<PlanRecord>> {
        let ids = ids.to_vec();
        self.read(move |connection| read_plans(connection, &ids)).await
    }

    async fn plans_page(&self, before: PlanId, limit: u32) -> Result<Vec<PlanRecord>> {
        self.read(move |connection| {
            read_records(connection, READING, queries::PLANS_PAGE, params![before.0, limit])
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
        self.read(move |connection| {
            let own = params![id.0, after, limit, outcome.map(PlanOutcome::name)];
            read_records(connection, READING, queries::PLAN_UNITS_PAGE, own)
        })
        .await
    }

    async fn plan_unit_counts(&self, id: PlanId) -> Result<Vec<PlanUnitCount>> {
        self.read(move |connection| {
            read_records(connection, READING, queries::COUNT_PLAN_UNITS, [id.0])
        })
        .await
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
            if matches!(order, PlanOrder::Apply(_)) && plan.frozen_at.is_none() {
                return Ok(PlanChange::NotFrozen);
            }
            let Ok(entry) = plan.order(&order, &by) else {
                return Ok(PlanChange::Refused(before));
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
        let PlanClaim { owner, lease_until, now, only, limit } = claim.clone();
        let write = self.write(move |connection| {
            let (until, only) = (micros(lease_until), only.map(|id| id.0));
            let own = params![owner.0, until, micros(now), limit, only];
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
        time: PlanTime,
    ) -> Result<Option<PlanRecord>> {
        let batch = *batch;
        let write = self.write_held(lease, move |connection, plan| {
            if plan.status != PlanStatus::Running {
                return Ok(());
            }
            let outcome: Option<&str> = None;
            let own = params![plan.id.0, plan.last_unit, batch.units, outcome];
            let units: Vec<PlanUnitRecord> =
                read_records(connection, READING, queries::PLAN_UNITS_PAGE, own)?;
            let found = found(connection, plan.action.kind(), &units)?;
            let writes = plan.action.decide(&units, &found);
            change(connection, plan, &writes, &found, &plan.operator(time.at))?;
            redrive_store::failpoint!("sqlite.plan.changed");
            write_units(connection, plan.id, &writes, time.at)?;
            redrive_store::failpoint!("sqlite.plan.units");
            plan.count_step(&writes, &batch, time.now);
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
        let write = self.write(move |connection| {
            let Some(mut plan) = held(connection, lease)? else { return Ok(None) };
            let units = pending(connection, plan.id, after, limit)?;
            let found = found(connection, plan.action.kind(), &units)?;
            let writes = plan.action.outcomes(&units, &found);
            if !writes.is_empty() {
                write_units(connection, plan.id, &writes, at)?;
                plan.count_outcomes(&writes);
                write_plan(connection, &plan)?;
            }
            let full = units.len() >= limit as usize;
            let last = units.last().filter(|_| full).map(|unit| unit.unit_id);
            Ok(Some((plan, last)))
        });
        let settled = write.await?;
        redrive_store::failpoint!("sqlite.plan.settled");
        Ok(settled)
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
            let own = [json_list(&names)];
            let newest = read_records(connection, READING, queries::NEWEST_ENTRIES, own)?;
            let newest = newest.into_iter().collect();
            let undoable = plan.action.undoable(plan.id, &units, &found, &newest);
            let restored = restore(connection, plan, &undoable, &plan.operator(at))?;
            redrive_store::failpoint!("sqlite.plan.restored");
            let writes: Vec<PlanUnitWrite> =
                restored.iter().map(|frozen| frozen.undone()).collect();
            write_units(connection, plan.id, &writes, at)?;
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

fn read_plan(connection: &Connection, id: PlanId) -> Result<Option<PlanRecord>> {
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

fn pending(
    connection: &Connection,
    id: PlanId,
    after: i64,
    limit: u32,
) -> Result<Vec<PlanUnitRecord>> {
    read_records(connection, READING, queries::PENDING_PLAN_UNITS, params![id.0, after, limit])
}

fn write_plan(connection: &Connection, plan: &PlanRecord) -> Result<()> {
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
    ];
    let mut write = connection.prepare_cached(queries::WRITE_PLAN).doing(WRITING)?;
    write.execute(own).map(drop).doing(WRITING)
}

fn write_units(
    connection: &Connection,
    id: PlanId,
    writes: &[PlanUnitWrite],
    at: Timestamp,
) -> Result<()> {
    let mut update = connection.prepare_cached(queries::WRITE_PLAN_UNITS).doing(WRITING)?;
    for write in writes {
        let PlanUnitWrite { unit_id, outcome, reason, new_cause, undo } = write;
        let own = params![id.0, unit_id, outcome.name(), reason, micros(at), new_cause, undo];
        if update.execute(own).doing(WRITING)? != 1 {
            let problem = format!("plan {id} has no unit {unit_id}");
            return Err(Error::misuse(WRITING, problem));
        }
    }
    Ok(())
}
