//! Plans: bulk actions on frozen lists of units.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{PlanBatch, PlanId, PlanStatus};
use redrive_store::{
    Error, JournalEntry, LeaseRef, NEVER_STARTED, NewPlan, Operator, PlanAction, PlanChange,
    PlanClaim, PlanCountChange, PlanEnd, PlanOrder, PlanOutcome, PlanOutcomeCount, PlanRecord,
    PlanUnit, PlanUnitCount, PlanUnitRecord, PlanUnitWrite, PlannedUnit, Plans, ReadColumn, Result,
    StepPages, Store, UnitKind, WorkerId, Written, listed_counts, refused_counts,
};
use tokio_postgres::Row;

use crate::{
    PostgresStore,
    batch::each,
    bound_query::{bind, columns},
    columns::{Micros, read_records, read_rows},
    journal::JournalColumns,
    plan_kinds::{change, first_ends, found, lock, restore, units_by_id},
    queries,
    session::Session,
};

const READING: &str = "reading plans";
const WRITING: &str = "writing plans";

#[async_trait]
impl Plans for PostgresStore {
    async fn create_plan(&self, plan: &NewPlan) -> Result<PlanId> {
        let plan = NewPlan { by: plan.by.cleaned(), ..plan.clone() };
        let insert = bind!(
            queries::INSERT_PLAN,
            action => &plan.action.name(),
            options => &plan.action.options().to_string(),
            selection => &plan.selection,
            settings => &plan.settings_json(),
            created_at => &Micros(plan.by.at),
            created_by => &plan.by.actor,
            reason => &plan.by.reason,
        );
        let mut session = self.session(WRITING).await?;
        let rows = session.begin(insert).await?;
        redrive_store::failpoint!("postgres.plan.created");
        let id = read_rows(&rows, WRITING, |row| row.get())?.pop().map(PlanId);
        let id = id.ok_or_else(|| Error::misuse(WRITING, "the server gave no id"))?;
        commit_entry(&mut session, &plan.journal_entry(id)).await?;
        Ok(id)
    }

    async fn add_plan_units(&self, id: PlanId, units: &[PlannedUnit]) -> Result<Written> {
        let mut session = self.session(WRITING).await?;
        let Some(mut plan) = lock_draft(&mut session, id).await? else {
            return Ok(Written::Stale);
        };
        let insert = bind!(
            queries::INSERT_PLAN_UNITS,
            plan_id => &id.0,
            unit_id => &each(units, |unit| unit.unit_id),
            state => &each(units, |unit| unit.state),
            version => &each(units, |unit| unit.version),
            cause => &each(units, |unit| unit.cause.as_deref()),
            refusal => &each(units, |unit| unit.refusal.as_deref()),
        );
        let added = read_rows(&session.query(insert).await?, WRITING, |row| row.get())?;
        let added: HashSet<i64> = added.into_iter().collect();
        let listed = units.iter().filter(|unit| added.contains(&unit.unit_id));
        let (counts, begins) = (listed_counts(listed), plan.begins_counts());
        plan.counts.total += added.len() as u64;
        let (counts, columns) = (CountColumns::of(&counts), PlanColumns::of(&plan));
        let counts = bind!(queries::ADD_PLAN_COUNTS, plan_id => &id.0, begins => &begins, ..CountColumns(counts));
        session.commit_all(&[counts, bind!(queries::WRITE_PLAN, ..PlanColumns(columns))]).await?;
        Ok(Written::Applied)
    }

    async fn freeze_plan(&self, id: PlanId, at: Timestamp) -> Result<Written> {
        let mut session = self.session(WRITING).await?;
        let Some(mut plan) = lock_draft(&mut session, id).await? else {
            return Ok(Written::Stale);
        };
        plan.frozen_at = Some(at);
        commit_plan(&mut session, &plan, None).await?;
        Ok(Written::Applied)
    }

    async fn discard_plan(&self, id: PlanId, limit: u32, by: &Operator) -> Result<bool> {
        let mut session = self.session(WRITING).await?;
        let plan = begin_with_plan(&mut session, id).await?;
        let Some(mut plan) = plan.filter(|plan| plan.status == PlanStatus::Draft) else {
            session.commit().await?;
            return Ok(false);
        };
        let removed = remove_units(&mut session, id, limit).await?;
        if removed.is_empty() {
            let entry = plan.discarded(&by.cleaned());
            let journal = JournalColumns::of([Some(&entry)]);
            let delete = bind!(queries::DELETE_PLAN, id => &id.0);
            let note = bind!(queries::INSERT_JOURNAL, ..JournalColumns(journal));
            session.commit_all(&[delete, note]).await?;
            return Ok(false);
        }
        plan.count_discarded(removed.len() as u64);
        commit_plan(&mut session, &plan, None).await?;
        Ok(true)
    }

    async fn plans_by_id(&self, ids: &[PlanId]) -> Result<Vec<PlanRecord>> {
        let ids = each(ids, |id| id.0);
        let mut session = self.session(READING).await?;
        read_records(&session.query(bind!(queries::PLANS_BY_ID, ids => &ids)).await?, READING)
    }

    async fn plans_page(&self, before: PlanId, limit: u32) -> Result<Vec<PlanRecord>> {
        let page = bind!(
            queries::PLANS_PAGE,
            before => &before.0,
            known => &&PlanAction::NAMES[..],
            limit => &i64::from(limit),
        );
        read_records(&self.session(READING).await?.query(page).await?, READING)
    }

    async fn live_plans(&self, limit: u32) -> Result<Vec<PlanRecord>> {
        let (known, limit) = (&PlanAction::NAMES[..], i64::from(limit));
        let live = bind!(queries::LIVE_PLANS, known => &known, limit => &limit);
        read_records(&self.session(READING).await?.query(live).await?, READING)
    }

    async fn plan_units_page(
        &self,
        id: PlanId,
        outcome: Option<PlanOutcome>,
        after: i64,
        limit: u32,
    ) -> Result<Vec<PlanUnitRecord>> {
        units_page(&mut self.session(READING).await?, id, outcome, after, limit).await
    }

    async fn plan_unit_counts(&self, id: PlanId) -> Result<Vec<PlanUnitCount>> {
        let counts = bind!(queries::PLAN_COUNTS, plan_id => &id.0);
        let kept = self.session(READING).await?.query(counts).await?;
        let kept: Vec<PlanUnitCount> = read_records(&kept, READING)?;
        if kept.is_empty() { self.count_plan_units(id).await } else { Ok(kept) }
    }

    async fn count_plan_units(&self, id: PlanId) -> Result<Vec<PlanUnitCount>> {
        let counts = bind!(queries::COUNT_PLAN_UNITS, plan_id => &id.0);
        read_records(&self.session(READING).await?.query(counts).await?, READING)
    }

    async fn plan_outcomes(&self, id: PlanId, periods: u32) -> Result<Vec<PlanOutcomeCount>> {
        let periods = i64::from(periods.max(1));
        let counts = bind!(queries::PLAN_OUTCOMES, plan_id => &id.0, periods => &periods);
        read_records(&self.session(READING).await?.query(counts).await?, READING)
    }

    async fn units_by_id(&self, kind: UnitKind, ids: &[i64]) -> Result<Vec<PlanUnit>> {
        units_by_id(&mut self.session(READING).await?, kind, ids).await
    }

    async fn refuse_plan_units(
        &self,
        lease: LeaseRef,
        refusals: &[(i64, String)],
    ) -> Result<Written> {
        let mut session = self.session(WRITING).await?;
        let Some(plan) = lock_held(&mut session, lease).await? else {
            return Ok(Written::Stale);
        };
        let refuse = bind!(
            queries::REFUSE_PLAN_UNITS,
            plan_id => &plan.id.0,
            unit_id => &each(refusals, |(unit_id, _)| *unit_id),
            refusal => &each(refusals, |(_, refusal)| refusal.as_str()),
        );
        let rows = session.query(refuse).await?;
        let refused: Vec<(String, Option<String>, String)> =
            read_rows(&rows, WRITING, |row| Ok((row.get()?, row.get()?, row.get()?)))?;
        let refused =
            refused.iter().map(|(state, cause, why)| (state.as_str(), cause.as_ref(), why));
        let counts = refused_counts(refused);
        let counts = CountColumns::of(&counts);
        let plan_id = plan.id.0;
        let counts = bind!(queries::ADD_PLAN_COUNTS, plan_id => &plan_id, begins => &false, ..CountColumns(counts));
        session.commit_all(&[counts]).await?;
        Ok(Written::Applied)
    }

    async fn change_plan(
        &self,
        id: PlanId,
        order: &PlanOrder,
        by: &Operator,
    ) -> Result<PlanChange> {
        let mut session = self.session("changing a plan").await?;
        let change = order_plan(&mut session, id, order, &by.cleaned()).await?;
        drop(session);
        self.notify_if(matches!(change, PlanChange::Done(_))).await;
        Ok(change)
    }

    async fn claim_plans(&self, claim: &PlanClaim) -> Result<Vec<PlanRecord>> {
        const DOING: &str = "claiming plans";
        let take = bind!(
            queries::CLAIM_PLANS,
            owner => &claim.owner.0,
            lease_until => &Micros(claim.lease_until),
            now => &Micros(claim.now),
            only => &claim.only.map(|id| id.0),
            except => &each(&claim.except, |id| id.0),
            known => &&PlanAction::NAMES[..],
            limit => &i64::from(claim.limit),
        );
        let rows = self.session(DOING).await?.query(take).await?;
        let mut claimed: Vec<PlanRecord> = read_records(&rows, DOING)?;
        // RETURNING has no order.
        claimed.sort_unstable_by_key(|plan| plan.id);
        Ok(claimed)
    }

    async fn renew_plan(&self, lease: LeaseRef, until: Timestamp) -> Result<Option<PlanRecord>> {
        let mut session = self.session(WRITING).await?;
        let Some(mut plan) = lock_held(&mut session, lease).await? else { return Ok(None) };
        plan.lease_until = plan.lease_until.max(Some(until));
        commit_plan(&mut session, &plan, None).await?;
        Ok(Some(plan))
    }

    async fn release_plan(&self, lease: LeaseRef) -> Result<Written> {
        let mut session = self.session(WRITING).await?;
        let Some(mut plan) = lock_held(&mut session, lease).await? else {
            return Ok(Written::Stale);
        };
        (plan.lease_owner, plan.lease_until) = (None, None);
        commit_plan(&mut session, &plan, None).await?;
        Ok(Written::Applied)
    }

    async fn step_plan(
        &self,
        lease: LeaseRef,
        batch: &PlanBatch,
        at: Timestamp,
    ) -> Result<Option<PlanRecord>> {
        let mut session = self.session("applying a plan").await?;
        let Some(mut plan) = lock_held(&mut session, lease).await? else { return Ok(None) };
        if !plan.expects(batch) {
            session.commit().await?;
            return Ok(Some(plan));
        }
        let (mut pages, mut writes) = (StepPages::new(batch, plan.action.kind()), Vec::new());
        let (mut read, mut locked) = (Vec::new(), HashMap::new());
        let (mut after, by) = (plan.last_unit, plan.operator(at));
        while let Some((page, most)) = pages.next() {
            let units = units_page(&mut session, plan.id, None, after, page).await?;
            let found = lock(&mut session, plan.action.kind(), &units).await?;
            redrive_store::failpoint!("postgres.plan.locked");
            let decided = plan.action.decide(&units, &found, most);
            pages.took(units.len(), &decided);
            after = units.last().map_or(after, |unit| unit.unit_id);
            writes.extend(decided);
            read.extend(units);
            locked.extend(found);
        }
        // All units are locked before one is changed. A change of samples locks their pipeline runs, which a worker locks after
        // its samples.
        change(&mut session, &plan, &writes, &locked, &by).await?;
        redrive_store::failpoint!("postgres.plan.changed");
        plan.count_step(&writes, batch, self.now());
        commit_units(&mut session, &plan, &read, &writes, at).await?;
        drop(session);
        redrive_store::failpoint!("postgres.plan.stepped");
        self.claim_cursors.runs_became_ready_anywhere();
        self.notify_if(writes.iter().any(PlanUnitWrite::is_changed)).await;
        Ok(Some(plan))
    }

    async fn settle_plan(
        &self,
        lease: LeaseRef,
        after: i64,
        limit: u32,
        at: Timestamp,
    ) -> Result<Option<(PlanRecord, Option<i64>)>> {
        let mut session = self.session("settling a plan").await?;
        let Some(mut plan) = lock_held(&mut session, lease).await? else { return Ok(None) };
        let units = pending(&mut session, plan.id, after, limit).await?;
        let found = found(&mut session, plan.action.kind(), &units).await?;
        let first = first_ends(&mut session, plan.action, &units, &found).await?;
        let writes = plan.action.outcomes(&units, &found, &first);
        if writes.is_empty() {
            session.commit().await?;
        } else {
            plan.count_outcomes(&writes);
            commit_units(&mut session, &plan, &units, &writes, at).await?;
        }
        redrive_store::failpoint!("postgres.plan.settled");
        let full = units.len() >= limit as usize;
        let last = units.last().filter(|_| full).map(|unit| unit.unit_id);
        Ok(Some((plan, last)))
    }

    async fn undo_plan(
        &self,
        lease: LeaseRef,
        limit: u32,
        at: Timestamp,
    ) -> Result<Option<PlanRecord>> {
        let mut session = self.session("undoing a plan").await?;
        let Some(mut plan) = lock_held(&mut session, lease).await? else { return Ok(None) };
        let Some(after) = plan.undo_unit else {
            session.commit().await?;
            return Ok(Some(plan));
        };
        let units = pending(&mut session, plan.id, after, limit).await?;
        let found = lock(&mut session, plan.action.kind(), &units).await?;
        let names: Vec<String> = found.values().map(|unit| unit.unit()).collect();
        let newest =
            bind!(queries::NEWEST_ENTRIES, units => &names, never_started => &&NEVER_STARTED[..]);
        let rows = session.query(newest).await?;
        let newest = read_records(&rows, READING)?.into_iter().collect();
        let undoable = plan.action.undoable(plan.id, &units, &found, &newest);
        let restored = restore(&mut session, &plan, &undoable, &plan.operator(at)).await?;
        redrive_store::failpoint!("postgres.plan.restored");
        let writes = each(&restored, |frozen| frozen.undone());
        let full = units.len() >= limit as usize;
        plan.undo_unit = units.last().filter(|_| full).map(|unit| unit.unit_id);
        plan.count_outcomes(&writes);
        commit_units(&mut session, &plan, &units, &writes, at).await?;
        redrive_store::failpoint!("postgres.plan.undone");
        Ok(Some(plan))
    }

    async fn end_plan(
        &self,
        lease: LeaseRef,
        end: &PlanEnd,
        at: Timestamp,
    ) -> Result<Option<PlanRecord>> {
        let mut session = self.session("ending a plan").await?;
        let Some(mut plan) = lock_held(&mut session, lease).await? else { return Ok(None) };
        let worker = plan.lease_owner.clone().unwrap_or(WorkerId(String::new()));
        let entry = plan.end(end, at, &worker.0).ok();
        commit_plan(&mut session, &plan, entry.as_ref()).await?;
        redrive_store::failpoint!("postgres.plan.ended");
        Ok(Some(plan))
    }
}

async fn order_plan(
    session: &mut Session,
    id: PlanId,
    order: &PlanOrder,
    by: &Operator,
) -> Result<PlanChange> {
    let Some(mut plan) = begin_with_plan(session, id).await? else {
        session.commit().await?;
        return Ok(PlanChange::Unknown);
    };
    let before = plan.status;
    match plan.order(order, by) {
        Ok(entry) => {
            commit_plan(session, &plan, Some(&entry)).await?;
            Ok(PlanChange::Done(before))
        }
        Err(refused) => {
            session.commit().await?;
            Ok(refused)
        }
    }
}

/// Begins a transaction that locks a plan.
pub(crate) async fn begin_with_plan(
    session: &mut Session,
    id: PlanId,
) -> Result<Option<PlanRecord>> {
    let rows = session.begin(bind!(queries::LOCK_PLAN, id => &id.0)).await?;
    Ok(read_records(&rows, READING)?.pop())
}

/// Begins a transaction if the plan is a draft whose list of units is not complete.
async fn lock_draft(session: &mut Session, id: PlanId) -> Result<Option<PlanRecord>> {
    let is_draft = |plan: &PlanRecord| plan.status == PlanStatus::Draft && plan.frozen_at.is_none();
    let plan = begin_with_plan(session, id).await?.filter(is_draft);
    if plan.is_none() {
        session.commit().await?;
    }
    Ok(plan)
}

/// Begins a transaction if the plan is held under the lease.
async fn lock_held(session: &mut Session, lease: LeaseRef) -> Result<Option<PlanRecord>> {
    let plan = begin_with_plan(session, PlanId(lease.id)).await?;
    let plan = plan.filter(|plan| plan.is_held_under(lease));
    if plan.is_none() {
        session.commit().await?;
    }
    Ok(plan)
}

async fn units_page(
    session: &mut Session,
    id: PlanId,
    outcome: Option<PlanOutcome>,
    after: i64,
    limit: u32,
) -> Result<Vec<PlanUnitRecord>> {
    // The index has the pending units alone.
    if outcome == Some(PlanOutcome::Pending) {
        return pending(session, id, after, limit).await;
    }
    let page = bind!(
        queries::PLAN_UNITS_PAGE,
        plan_id => &id.0,
        outcome => &outcome.map(PlanOutcome::name),
        after => &after,
        limit => &i64::from(limit),
    );
    read_records(&session.query(page).await?, READING)
}

/// Removes the first units of a locked plan and its counts, and returns the units.
pub(crate) async fn remove_units(
    session: &mut Session,
    id: PlanId,
    limit: u32,
) -> Result<Vec<PlanUnitRecord>> {
    let units = units_page(session, id, None, 0, limit).await?;
    if let Some(last) = units.last().map(|unit| unit.unit_id) {
        let delete = bind!(queries::DELETE_PLAN_UNITS, plan_id => &id.0, last => &last);
        session.query(delete).await?;
        session.query(bind!(queries::DELETE_PLAN_COUNTS, plan_id => &id.0)).await?;
    }
    Ok(units)
}

async fn pending(
    session: &mut Session,
    id: PlanId,
    after: i64,
    limit: u32,
) -> Result<Vec<PlanUnitRecord>> {
    let page = bind!(
        queries::PENDING_PLAN_UNITS,
        plan_id => &id.0,
        after => &after,
        limit => &i64::from(limit),
    );
    read_records(&session.query(page).await?, READING)
}

async fn commit_entry(session: &mut Session, entry: &JournalEntry) -> Result<Vec<Vec<Row>>> {
    let journal = JournalColumns::of([Some(entry)]);
    session.commit_all(&[bind!(queries::INSERT_JOURNAL, ..JournalColumns(journal))]).await
}

/// Writes a locked plan with its journal entry, and commits.
pub(crate) async fn commit_plan(
    session: &mut Session,
    plan: &PlanRecord,
    entry: Option<&JournalEntry>,
) -> Result<()> {
    let columns = PlanColumns::of(plan);
    let journal = JournalColumns::of([entry]);
    let writes = [
        bind!(queries::WRITE_PLAN, ..PlanColumns(columns)),
        bind!(queries::INSERT_JOURNAL, ..JournalColumns(journal)),
    ];
    let writes = if entry.is_some() { &writes[..] } else { &writes[..1] };
    session.commit_all(writes).await.map(drop)
}

/// Writes a locked plan and what became of some of its units, which were read since, and commits.
async fn commit_units(
    session: &mut Session,
    plan: &PlanRecord,
    read: &[PlanUnitRecord],
    writes: &[PlanUnitWrite],
    at: Timestamp,
) -> Result<()> {
    let columns = PlanColumns::of(plan);
    let units = bind!(
        queries::WRITE_PLAN_UNITS,
        plan_id => &plan.id.0,
        outcome_at => &Micros(at),
        unit_id => &each(writes, |write| write.unit_id),
        outcome => &each(writes, |write| write.outcome.name()),
        reason => &each(writes, |write| write.reason.as_deref()),
        new_cause => &each(writes, |write| write.new_cause.as_deref()),
        undo => &each(writes, |write| write.undo.as_deref()),
    );
    let changes = plan.count_changes(read, writes, at);
    let counts = CountColumns::of(&changes);
    let plan_id = plan.id.0;
    let counts = bind!(queries::ADD_PLAN_COUNTS, plan_id => &plan_id, begins => &false, ..CountColumns(counts));
    let plan = bind!(queries::WRITE_PLAN, ..PlanColumns(columns));
    session.commit_all(&[units, counts, plan]).await.map(drop)
}

columns! {
    /// What changes of a plan.
    struct PlanColumns<'a> {
        id: i64,
        settings: String,
        status: &'static str,
        ordered_by: Option<&'a str>,
        ordered_reason: Option<&'a str>,
        frozen_at: Option<Micros>,
        started_at: Option<Micros>,
        ended_at: Option<Micros>,
        stop_reason: Option<&'a str>,
        total: i64,
        changed: i64,
        skipped: i64,
        pending: i64,
        recovered: i64,
        same_cause: i64,
        other_cause: i64,
        superseded: i64,
        undone: i64,
        last_unit: i64,
        undo_unit: Option<i64>,
        ramp_from: Option<Micros>,
        next_at: Option<Micros>,
        lease_owner: Option<&'a str>,
        lease_until: Option<Micros>,
        reason: Option<&'a str>,
    }
}

impl<'a> PlanColumns<'a> {
    fn of(plan: &'a PlanRecord) -> Self {
        let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        Self {
            id: plan.id.0,
            settings: plan.settings_json(),
            status: plan.status.name(),
            ordered_by: plan.ordered_by.as_deref(),
            ordered_reason: plan.ordered_reason.as_deref(),
            frozen_at: plan.frozen_at.map(Micros),
            started_at: plan.started_at.map(Micros),
            ended_at: plan.ended_at.map(Micros),
            stop_reason: plan.stop_reason.as_deref(),
            total: count(plan.counts.total),
            changed: count(plan.counts.changed),
            skipped: count(plan.counts.skipped),
            pending: count(plan.counts.pending),
            recovered: count(plan.counts.recovered),
            same_cause: count(plan.counts.same_cause),
            other_cause: count(plan.counts.other_cause),
            superseded: count(plan.superseded),
            undone: count(plan.undone),
            last_unit: plan.last_unit,
            undo_unit: plan.undo_unit,
            ramp_from: plan.timing.ramp_from.map(Micros),
            next_at: plan.timing.next_at.map(Micros),
            lease_owner: plan.lease_owner.as_ref().map(|owner| owner.0.as_str()),
            lease_until: plan.lease_until.map(Micros),
            reason: plan.reason.as_deref(),
        }
    }
}

columns! {
    /// Counts of units that are alike.
    struct CountColumns<'a> {
        key: Vec<i64>,
        state: Vec<&'a str>,
        cause: Vec<Option<&'a str>>,
        refusal: Vec<Option<&'a str>>,
        outcome: Vec<Option<&'static str>>,
        new_cause: Vec<Option<&'a str>>,
        ended_from: Vec<Option<i64>>,
        units: Vec<i64>,
    }
}

impl<'a> CountColumns<'a> {
    fn of(changes: &'a [PlanCountChange]) -> Self {
        Self {
            key: each(changes, |change| change.group.key()),
            state: each(changes, |change| change.group.state.as_str()),
            cause: each(changes, |change| change.group.cause.as_deref()),
            refusal: each(changes, |change| change.group.refusal.as_deref()),
            outcome: each(changes, |change| change.group.outcome.map(PlanOutcome::name)),
            new_cause: each(changes, |change| change.group.new_cause.as_deref()),
            ended_from: each(changes, |change| change.group.ended_from),
            units: each(changes, |change| change.units),
        }
    }
}
