//! Applies, watches and undoes plans (PLN-2 to PLN-5).
//!
//! Any process can execute any plan. An executor holds plans under leases, asks [`PlanSettings::next_step`] what to do, and
//! does it in one transaction of the store. Everything that the next step depends on is in the store, so another executor
//! goes on where this one was killed.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use redrive_core::{MAX_PLAN_STEP, PlanBatch, PlanId, PlanStatus, PlanStep};
use redrive_retry::{Clock, Stop, SystemClock, monotonic};
use redrive_store::{
    Error, LeaseRef, PlanClaim, PlanEnd, PlanRecord, PlanUnit, Result, Store, UnitKind, WorkerId,
};
use tokio::{task::JoinSet, time::Instant};

use super::{
    held_plan::{HeldPlan, Working},
    settling::Settling,
};
use crate::partitions::control::Control;

/// How long a plan waits for another executor after a kill.
pub const PLAN_LEASE: Duration = Duration::from_secs(30);

/// Plans at which one executor works at a time; those that wait for their pace, their canary or outcomes are not counted.
const MAX_PLANS: u32 = 16;

/// Partitions whose raw data is looked up before one step.
const MAX_CHECKED: u32 = 100;

/// How often an executor looks for plans, and for orders to the plans that it holds.
const POLL: Duration = Duration::from_secs(1);

/// The least time between two looks for plans, however often the store changes.
const MIN_POLL: Duration = Duration::from_millis(250);

/// After an error of the store, and after several about one plan.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);
const MAX_PAUSE_AFTER_ERRORS: Duration = Duration::from_secs(60);

/// How long a plan waits for a raw sink that cannot be read.
const RAW_RETRY: Duration = Duration::from_secs(10);

/// How long a plan is left to other executors whose next partition is of a source that only they know.
const UNDECLARED_RETRY: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub struct PlanExecutor {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    owner: WorkerId,
    lease: Duration,
    partitions: Option<Control>,
    /// The sources that the partitions' rules and raw sink are for; all if there are none.
    sources: Option<Arc<HashSet<String>>>,
}

/// How the execution of one plan ended.
#[derive(Debug, Clone, PartialEq)]
pub enum PlanRun {
    /// It is no longer running. The outcomes of its last units may not be known yet.
    Ended(Box<PlanRecord>),
    /// Another executor holds it, or there is no such plan.
    Elsewhere,
    /// The next unit is of this source and must be checked, and the configuration does not declare it.
    Undeclared(String),
}

/// When to look at a plan again.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Next {
    Now,
    At(Timestamp),
    /// The plan has no more work, or another executor has it.
    Never,
    /// The plan was released: this executor knows nothing about the source.
    Undeclared(String),
}

/// What the raw sink and the policies say about the next units.
enum Checked {
    Step(PlanBatch),
    /// The raw sink cannot be read, or the executor is stopped.
    Later,
    Undeclared(String),
}

impl PlanExecutor {
    /// `owner` must be unique.
    pub fn new(store: Arc<dyn Store>, owner: WorkerId) -> Self {
        let clock = Arc::new(SystemClock);
        Self { store, clock, owner, lease: PLAN_LEASE, partitions: None, sources: None }
    }

    /// Leaves partitions of other sources to other executors, if they are to be checked.
    pub fn with_sources(self, sources: impl IntoIterator<Item = String>) -> Self {
        Self { sources: Some(Arc::new(sources.into_iter().collect())), ..self }
    }

    /// Checks the raw data of partitions once more before they are changed (FIX-4).
    pub fn with_partitions(self, partitions: Control) -> Self {
        Self { partitions: Some(partitions), ..self }
    }

    /// Replaces the system clock, for tests.
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    pub fn with_lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    /// Executes all plans that no other executor holds, until stopped. Each has a task of its own, so that none waits for
    /// the store, the raw sink or the errors of another.
    pub async fn run(&self, mut stop: Stop) {
        let (mut plans, working) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
        let (mut wakes, mut undeclared) = (self.store.wakes(), BTreeMap::<PlanId, Instant>::new());
        while !stop.is_stopped() {
            wakes.mark_unchanged();
            // Plans that wait or are only watched keep no other from running.
            if working.load(Ordering::Relaxed) < MAX_PLANS as usize {
                let left = undeclared.iter().filter(|(_, at)| at.elapsed() < UNDECLARED_RETRY);
                let left: Vec<PlanId> = left.map(|(id, _)| *id).collect();
                match self.claim(None, &left).await {
                    Ok(claimed) => claimed.into_iter().for_each(|plan| {
                        plans.spawn(self.clone().hold(plan, working.clone(), stop.clone()));
                    }),
                    Err(error) => {
                        let error = &error as &dyn std::error::Error;
                        tracing::warn!(error, "cannot look for plans; trying again");
                    }
                }
            }
            tokio::select! {
                biased;
                () = stop.stopped() => break,
                () = tokio::time::sleep(POLL) => {}
                // An order to a plan, among others. The pause bounds how often a busy store is asked.
                _ = wakes.changed() => tokio::time::sleep(MIN_POLL).await,
            }
            while let Some(ended) = plans.try_join_next() {
                let Some((id, source)) = left_to_others(ended) else { continue };
                if undeclared.insert(id, monotonic()).is_none() {
                    let plan = id.0;
                    tracing::warn!(
                        plan,
                        source,
                        "the configuration does not declare the source; its partitions are left to other processes"
                    );
                }
            }
        }
        while let Some(ended) = plans.join_next().await {
            let _ = left_to_others(ended);
        }
    }

    /// Holds a plan until it has no more work, or the executor is stopped. Returns the plan and a source if others must go on
    /// with the partitions of the source.
    async fn hold(
        self,
        mut held: HeldPlan,
        working: Arc<AtomicUsize>,
        mut stop: Stop,
    ) -> Option<(PlanId, String)> {
        let (id, mut counted) = (held.plan.id, Working::new(working));
        held.stop = Some(stop.clone());
        loop {
            counted.set(held.is_executed());
            let pause = match self.advance(&mut held).await {
                Ok(Next::Never) => return None,
                Ok(Next::Undeclared(source)) => return Some((id, source)),
                Ok(next) => self.pause(&mut held, &next),
                Err(error) => Some(self.pause_after(&mut held, &error)),
            };
            if pause.is_some() {
                counted.set(false);
            }
            tokio::select! {
                biased;
                () = stop.stopped() => break,
                () = rest(pause) => {}
            }
        }
        // If this fails, the lease ends by itself.
        let _ = self.store.release_plan(held.plan.lease()).await;
        None
    }

    /// Executes one plan until it is no longer running, and reports its progress. `is_own` says that its list was made with the
    /// configuration of this executor.
    pub async fn run_plan(
        &self,
        id: PlanId,
        is_own: bool,
        mut report: impl FnMut(&PlanRecord) + Send,
    ) -> Result<PlanRun> {
        let Some(held) = self.claim(Some(id), &[]).await?.pop() else {
            return Ok(PlanRun::Elsewhere);
        };
        let mut held = HeldPlan { is_own, ..held };
        loop {
            report(&held.plan);
            if !held.is_executed() {
                let _ = self.store.release_plan(held.plan.lease()).await?;
                return Ok(PlanRun::Ended(Box::new(held.plan)));
            }
            let next = match self.advance(&mut held).await {
                Ok(next) => next,
                Err(error) if error.is_transient() => {
                    rest(Some(self.pause_after(&mut held, &error))).await;
                    continue;
                }
                Err(error) => {
                    // If this fails, the lease ends by itself.
                    let _ = self.store.release_plan(held.plan.lease()).await;
                    return Err(error);
                }
            };
            match next {
                Next::Never => {
                    let plan = self.store.plans_by_id(&[id]).await?.pop();
                    let ended = plan.filter(|plan| plan.status != PlanStatus::Running);
                    return Ok(
                        ended.map_or(PlanRun::Elsewhere, |plan| PlanRun::Ended(Box::new(plan)))
                    );
                }
                Next::Undeclared(source) => return Ok(PlanRun::Undeclared(source)),
                next => rest(self.pause(&mut held, &next)).await,
            }
        }
    }

    /// Looks once for the outcomes of all pending units, of one plan or of all that no other executor holds. An error about one
    /// plan holds up no other.
    pub async fn settle_once(&self, only: Option<PlanId>) -> Result<()> {
        let mut seen = Vec::new();
        loop {
            let claimed = self.claim(only, &seen).await?;
            if claimed.is_empty() {
                return Ok(());
            }
            for held in claimed {
                let lease = held.plan.lease();
                seen.push(held.plan.id);
                if let Err(error) = self.settle_pages(lease).await {
                    let (plan, error) = (held.plan.id.0, &error as &dyn std::error::Error);
                    tracing::warn!(plan, error, "cannot note what became of the units of the plan");
                }
                // If this fails, the lease ends by itself.
                let _ = self.store.release_plan(lease).await;
            }
            if only.is_some() {
                return Ok(());
            }
        }
    }

    async fn settle_pages(&self, lease: LeaseRef) -> Result<()> {
        let mut after = 0;
        loop {
            let now = self.clock.now();
            let settled = self.store.settle_plan(lease, after, MAX_PLAN_STEP, now).await?;
            let Some((_, Some(next))) = settled else { return Ok(()) };
            after = next;
        }
    }

    async fn claim(&self, only: Option<PlanId>, except: &[PlanId]) -> Result<Vec<HeldPlan>> {
        let now = self.store.now();
        let claim = PlanClaim {
            owner: self.owner.clone(),
            lease_until: self.lease_end(now),
            now,
            only,
            except: except.to_vec(),
            limit: MAX_PLANS,
        };
        let claimed = self.store.claim_plans(&claim).await?;
        if claimed.is_empty() {
            return Ok(Vec::new());
        }
        redrive_store::failpoint!("engine.plan.claimed");
        let held = |plan: PlanRecord| HeldPlan {
            next_at: plan.settings.timing_at(&plan.timing, now).next_at,
            plan,
            read_at: now,
            renewed_at: now,
            settling: Settling::new(now),
            errors: 0,
            is_own: false,
            stop: None,
        };
        Ok(claimed.into_iter().map(held).collect())
    }

    /// Does the next thing that a plan needs.
    async fn advance(&self, held: &mut HeldPlan) -> Result<Next> {
        let (now, lease) = (self.store.now(), held.plan.lease());
        let since = |at: Timestamp| now.duration_since(at).unsigned_abs();
        if since(held.renewed_at) >= self.lease / 3 {
            if !self.renew(held).await? {
                return Ok(Next::Never);
            }
        } else if since(held.read_at) >= POLL {
            let read = self.store.plans_by_id(&[held.plan.id]).await?.pop();
            if !held.read(read.filter(|plan| plan.is_held_under(lease)), now) {
                return Ok(Next::Never);
            }
        }
        if held.plan.undo_unit.is_some() {
            let undone = self.store.undo_plan(lease, MAX_PLAN_STEP, self.clock.now()).await?;
            redrive_store::failpoint!("engine.plan.undone");
            return Ok(if held.read(undone, now) { Next::Now } else { Next::Never });
        }
        let step = held.next_step(now);
        let settle_at = (held.plan.counts.pending > 0).then(|| held.settling.next_at());
        let is_due = settle_at.is_some_and(|at| at <= now);
        let steps = matches!(step, Some(PlanStep::Change(_)));
        if is_due && !(steps && held.settling.is_last()) {
            return self.settle(held, now, steps).await;
        }
        if !held.plan.has_work() {
            let _ = self.store.release_plan(lease).await?;
            redrive_store::failpoint!("engine.plan.released");
            return Ok(Next::Never);
        }
        let wait = |at: Timestamp| Next::At(settle_at.map_or(at, |settle| settle.min(at)));
        match step {
            None => Ok(settle_at.map_or(Next::Now, Next::At)),
            Some(PlanStep::Change(batch)) => self.step(held, &batch).await,
            Some(PlanStep::WaitUntil(at)) => Ok(wait(at)),
            Some(PlanStep::WaitForCanary) => Ok(wait(held.settling.next_at())),
            Some(PlanStep::Abort(why)) => self.end(held, &PlanEnd::Abort(why.to_string())).await,
            Some(PlanStep::Complete) => self.end(held, &PlanEnd::Complete).await,
        }
    }

    async fn step(&self, held: &mut HeldPlan, batch: &PlanBatch) -> Result<Next> {
        let batch = match self.check_partitions(held, *batch).await? {
            None => return Ok(Next::Never),
            Some(Checked::Step(batch)) => batch,
            Some(Checked::Later) => {
                held.next_at = Some(after(self.store.now(), RAW_RETRY));
                return Ok(Next::Now);
            }
            Some(Checked::Undeclared(source)) => {
                let _ = self.store.release_plan(held.plan.lease()).await?;
                return Ok(Next::Undeclared(source));
            }
        };
        let (lease, before) = (held.plan.lease(), held.plan.counts);
        let stepped = self.store.step_plan(lease, &batch, self.clock.now()).await;
        redrive_store::failpoint!("engine.plan.stepped");
        // A slow commit may be visible only now, so the pace is counted from here, also after an error.
        let now = self.store.now();
        held.settling.stepped(now);
        held.next_at = Some(batch.next_at(batch.units, now));
        if !held.read(stepped?, now) {
            return Ok(Next::Never);
        }
        let counts = &held.plan.counts;
        let changed = counts.changed.saturating_sub(before.changed);
        held.next_at = Some(batch.next_at(u32::try_from(changed).unwrap_or(u32::MAX), now));
        let moved =
            held.plan.status != PlanStatus::Running || counts.position() != before.position();
        Ok(if moved { Next::Now } else { Next::At(after(now, POLL)) })
    }

    /// Notes which of the next partitions the store must skip for what it does not know. The step ends before a partition about
    /// which nothing is known here: its source is not declared, or the raw sink cannot be read. `None` if the lease is lost.
    async fn check_partitions(
        &self,
        held: &mut HeldPlan,
        batch: PlanBatch,
    ) -> Result<Option<Checked>> {
        let plan = &held.plan;
        let Some(control) = self.partitions.as_ref().filter(|_| plan.action.needs_check()) else {
            return Ok(Some(Checked::Step(batch)));
        };
        // The raw sink may be slow.
        let mut batch = PlanBatch { units: batch.units.min(MAX_CHECKED), ..batch };
        let units = self.store.plan_units_page(plan.id, None, plan.last_unit, batch.units).await?;
        let ids = units.iter().filter(|unit| unit.refusal.is_none()).map(|unit| unit.unit_id);
        let ids: Vec<i64> = ids.collect();
        let found = self.store.units_by_id(UnitKind::Partition, &ids).await?;
        let mut found: Vec<_> = found.into_iter().filter_map(PlanUnit::into_partition).collect();
        let before = |id: i64| {
            let units = units.iter().take_while(|unit| unit.unit_id < id).count();
            u32::try_from(units).unwrap_or(u32::MAX)
        };
        let declared = self.sources.as_ref().filter(|_| !held.is_own);
        let undeclared = declared.and_then(|declared| {
            let others = found.iter().filter(|it| !declared.contains(it.key.source()));
            let first = others.min_by_key(|partition| partition.id)?;
            Some((first.id, first.key.source().to_owned()))
        });
        if let Some((first, source)) = undeclared {
            batch.units = before(first.0);
            if batch.units == 0 {
                return Ok(Some(Checked::Undeclared(source)));
            }
            found.retain(|partition| partition.id < first);
        }
        let (action, by) = (plan.action, plan.operator(self.clock.now()));
        let mut stop = held.stop.clone();
        let judging = async {
            tokio::select! {
                biased;
                () = stopped(&mut stop) => None,
                refusals = control.plan_refusals(action, found, &by) => Some(refusals),
            }
        };
        let Some(judged) = self.renewing(held, judging).await? else { return Ok(None) };
        let Some(refusals) = judged else { return Ok(Some(Checked::Later)) };
        if let Some((id, why)) = &refusals.unreadable {
            let plan = held.plan.id.0;
            tracing::warn!(plan, why, "the plan waits for the raw sink; trying again");
            batch.units = before(*id);
        }
        if !refusals.refused.is_empty() {
            let lease = held.plan.lease();
            let _ = self.store.refuse_plan_units(lease, &refusals.refused).await?;
        }
        Ok(Some(if batch.units == 0 { Checked::Later } else { Checked::Step(batch) }))
    }

    /// Renews the lease while something else takes long; `None` if it is lost.
    async fn renewing<T>(
        &self,
        held: &mut HeldPlan,
        work: impl Future<Output = T>,
    ) -> Result<Option<T>> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Ok(Some(done)),
                () = tokio::time::sleep(self.lease / 3) => {
                    if !self.renew(held).await? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Extends the lease and reads the plan; false if the lease is lost.
    async fn renew(&self, held: &mut HeldPlan) -> Result<bool> {
        let now = self.store.now();
        let renewed = self.store.renew_plan(held.plan.lease(), self.lease_end(now)).await?;
        redrive_store::failpoint!("engine.plan.renewed");
        held.renewed_at = now;
        Ok(held.read(renewed, now))
    }

    /// Looks at a page of pending units.
    async fn settle(&self, held: &mut HeldPlan, now: Timestamp, steps: bool) -> Result<Next> {
        let (lease, before) = (held.plan.lease(), held.plan.counts.pending);
        let page = held.settling.page(now);
        let settled = self.store.settle_plan(lease, page, MAX_PLAN_STEP, self.clock.now()).await?;
        redrive_store::failpoint!("engine.plan.settled");
        let Some((plan, next)) = settled else { return Ok(Next::Never) };
        let found = plan.counts.pending < before;
        held.plan = plan;
        held.settling.look_on(next, found, now, self.store.now(), steps);
        Ok(Next::Now)
    }

    async fn end(&self, held: &mut HeldPlan, end: &PlanEnd) -> Result<Next> {
        let ended = self.store.end_plan(held.plan.lease(), end, self.clock.now()).await?;
        redrive_store::failpoint!("engine.plan.ended");
        if !held.read(ended, self.store.now()) {
            return Ok(Next::Never);
        }
        let (plan, status) = (held.plan.id.0, held.plan.status.name());
        match end {
            PlanEnd::Complete => tracing::debug!(plan, status, "the plan has ended"),
            PlanEnd::Abort(why) => tracing::warn!(plan, status, why, "the plan was aborted"),
        }
        Ok(Next::Now)
    }

    fn lease_end(&self, now: Timestamp) -> Timestamp {
        after(now, self.lease)
    }

    /// How long to rest before a plan is looked at again; `None` if it has something to do.
    fn pause(&self, held: &mut HeldPlan, next: &Next) -> Option<Duration> {
        held.errors = 0;
        let Next::At(at) = next else { return None };
        let wait = Duration::try_from(at.duration_since(self.store.now())).unwrap_or_default();
        // Sleeps end a little early, and a plan would be looked at many times. Orders and progress are seen within a poll.
        Some((wait + Duration::from_millis(1)).min(POLL))
    }

    /// How long to rest after an error. What was written is not known, so the plan is read before anything else.
    fn pause_after(&self, held: &mut HeldPlan, error: &Error) -> Duration {
        held.read_at = Timestamp::UNIX_EPOCH;
        let pause = PAUSE_AFTER_ERROR.saturating_mul(1 << held.errors.min(6));
        let pause = pause.min(MAX_PAUSE_AFTER_ERRORS).min(self.lease / 3);
        held.errors += 1;
        let (plan, error) = (held.plan.id.0, error as &dyn std::error::Error);
        tracing::warn!(plan, error, ?pause, "cannot execute the plan; trying again");
        pause
    }
}

async fn stopped(stop: &mut Option<Stop>) {
    match stop {
        Some(stop) => stop.stopped().await,
        None => std::future::pending().await,
    }
}

/// Lets other tasks run, or time pass.
async fn rest(pause: Option<Duration>) {
    match pause {
        None => tokio::task::yield_now().await,
        Some(pause) => tokio::time::sleep(pause).await,
    }
}

/// The plan that a task has left to other processes, and the source that they must know.
fn left_to_others(
    ended: std::result::Result<Option<(PlanId, String)>, tokio::task::JoinError>,
) -> Option<(PlanId, String)> {
    ended.unwrap_or_else(|error| {
        let error = &error as &dyn std::error::Error;
        tracing::error!(error, "the execution of a plan panicked");
        None
    })
}

fn after(now: Timestamp, wait: Duration) -> Timestamp {
    now.checked_add(wait).unwrap_or(Timestamp::MAX)
}
