//! Applies, watches and undoes plans (PLN-2 to PLN-5).
//!
//! Any process can execute any plan. An executor holds plans under leases, asks [`PlanSettings::next_step`] what to do, and
//! does it in one transaction of the store. Everything that the next step depends on is in the store, so another executor
//! goes on where this one was killed.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use redrive_core::{MAX_PLAN_STEP, PlanBatch, PlanId, PlanStatus, PlanStep};
use redrive_retry::{Clock, Stop, SystemClock};
use redrive_store::{PlanClaim, PlanEnd, PlanRecord, PlanTime, Result, Store, WorkerId};

/// How long a plan waits for another executor after a kill.
pub const PLAN_LEASE: Duration = Duration::from_secs(30);

/// Plans that one executor holds at a time.
const MAX_PLANS: u32 = 16;

/// How often an executor looks for plans, and for orders to the plans that it holds.
const POLL: Duration = Duration::from_secs(1);

/// How often outcomes are looked for: at first, and if none were found for long.
const SETTLE: Duration = Duration::from_millis(250);
const MAX_SETTLE: Duration = Duration::from_secs(10);

/// After an error of the store.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub struct PlanExecutor {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    owner: WorkerId,
    lease: Duration,
}

/// A plan under this executor's lease.
struct HeldPlan {
    plan: PlanRecord,
    /// When the plan was last read and its lease extended, on the store's clock.
    read_at: Timestamp,
    renewed_at: Timestamp,
    /// The pace as this executor measured it, after its last step was committed.
    next_at: Option<Timestamp>,
    settle_after: i64,
    settle_at: Timestamp,
    settle_wait: Duration,
}

/// When to look at a plan again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Now,
    At(Timestamp),
    /// The plan has no more work, or another executor has it.
    Never,
}

impl PlanExecutor {
    /// `owner` must be unique.
    pub fn new(store: Arc<dyn Store>, owner: WorkerId) -> Self {
        Self { store, clock: Arc::new(SystemClock), owner, lease: PLAN_LEASE }
    }

    /// Replaces the system clock, for tests.
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    pub fn with_lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    /// Executes all plans that no other executor holds, until stopped.
    pub async fn run(&self, mut stop: Stop) {
        let mut held: Vec<HeldPlan> = Vec::new();
        let mut wakes = self.store.wakes();
        while !stop.is_stopped() {
            wakes.mark_unchanged();
            let pause = match self.turn(&mut held).await {
                Ok(pause) => pause,
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "cannot execute plans; trying again");
                    PAUSE_AFTER_ERROR
                }
            };
            tokio::select! {
                biased;
                () = stop.stopped() => break,
                () = tokio::time::sleep(pause) => {}
                // An order to a plan, among others. A pause bounds how often a busy store is asked.
                _ = wakes.changed() => tokio::time::sleep(pause.min(SETTLE)).await,
            }
        }
        for plan in held {
            // If this fails, the lease ends by itself.
            let _ = self.store.release_plan(plan.plan.lease()).await;
        }
    }

    /// Executes one plan until it is no longer running, and reports its progress. `None` if another executor holds it.
    /// The outcomes of its last units may not be known yet.
    pub async fn run_plan(
        &self,
        id: PlanId,
        mut report: impl FnMut(&PlanRecord) + Send,
    ) -> Result<Option<PlanRecord>> {
        let Some(mut held) = self.claim(Some(id)).await?.pop() else { return Ok(None) };
        loop {
            report(&held.plan);
            if !held.is_executed() {
                let _ = self.store.release_plan(held.plan.lease()).await?;
                return Ok(Some(held.plan));
            }
            match self.advance(&mut held).await? {
                Next::Now => {}
                Next::At(at) => tokio::time::sleep(self.until(at)).await,
                Next::Never => {
                    let plan = self.store.plans_by_id(&[id]).await?.pop();
                    return Ok(plan.filter(|plan| plan.status != PlanStatus::Running));
                }
            }
        }
    }

    /// Advances every held plan once, and returns how long none has anything to do.
    async fn turn(&self, held: &mut Vec<HeldPlan>) -> Result<Duration> {
        // Plans that are only watched keep no other from running.
        if held.iter().filter(|it| it.is_executed()).count() < MAX_PLANS as usize {
            held.extend(self.claim(None).await?);
        }
        let (mut pause, mut failed, mut place) = (POLL, None, 0);
        while let Some(plan) = held.get_mut(place) {
            match self.advance(plan).await {
                Ok(Next::Never) => {
                    held.remove(place);
                    continue;
                }
                Ok(Next::Now) => pause = Duration::ZERO,
                Ok(Next::At(at)) => pause = pause.min(self.until(at)),
                Err(error) => {
                    // What was written is not known, so the plan is read before anything else.
                    plan.read_at = Timestamp::UNIX_EPOCH;
                    failed = Some(error);
                }
            }
            place += 1;
        }
        failed.map_or(Ok(pause), Err)
    }

    async fn claim(&self, only: Option<PlanId>) -> Result<Vec<HeldPlan>> {
        let now = self.store.now();
        let claim = PlanClaim {
            owner: self.owner.clone(),
            lease_until: self.lease_end(now),
            now,
            only,
            limit: MAX_PLANS,
        };
        let claimed = self.store.claim_plans(&claim).await?;
        if claimed.is_empty() {
            return Ok(Vec::new());
        }
        redrive_store::failpoint!("engine.plan.claimed");
        let held = |plan| HeldPlan {
            plan,
            read_at: now,
            renewed_at: now,
            next_at: None,
            settle_after: 0,
            settle_at: now,
            settle_wait: SETTLE,
        };
        Ok(claimed.into_iter().map(held).collect())
    }

    /// Does the next thing that a plan needs.
    async fn advance(&self, held: &mut HeldPlan) -> Result<Next> {
        let (now, lease) = (self.store.now(), held.plan.lease());
        let since = |at: Timestamp| now.duration_since(at).unsigned_abs();
        if since(held.read_at) >= POLL || since(held.renewed_at) >= self.lease / 3 {
            let renewed = self.store.renew_plan(lease, self.lease_end(now)).await?;
            redrive_store::failpoint!("engine.plan.renewed");
            if !held.read(renewed, now) {
                return Ok(Next::Never);
            }
            held.renewed_at = now;
        }
        if held.plan.undo_unit.is_some() {
            let undone = self.store.undo_plan(lease, MAX_PLAN_STEP, self.clock.now()).await?;
            redrive_store::failpoint!("engine.plan.undone");
            return Ok(if held.read(undone, now) { Next::Now } else { Next::Never });
        }
        if held.plan.counts.pending > 0 && held.settle_at <= now {
            return self.settle(held, now).await;
        }
        if !held.plan.has_work() {
            let _ = self.store.release_plan(lease).await?;
            redrive_store::failpoint!("engine.plan.released");
            return Ok(Next::Never);
        }
        let settle_at = (held.plan.counts.pending > 0).then_some(held.settle_at);
        if held.plan.status != PlanStatus::Running {
            return Ok(settle_at.map_or(Next::Now, Next::At));
        }
        let mut timing = held.plan.timing;
        timing.next_at = timing.next_at.max(held.next_at);
        let wait = |at: Timestamp| Next::At(settle_at.map_or(at, |settle| settle.min(at)));
        match held.plan.settings.next_step(&held.plan.counts, &timing, now) {
            PlanStep::Change(batch) => self.step(held, &batch).await,
            PlanStep::WaitUntil(at) => Ok(wait(at)),
            PlanStep::WaitForCanary => Ok(wait(held.settle_at)),
            PlanStep::Abort(why) => self.end(held, &PlanEnd::Abort(why.to_string())).await,
            PlanStep::Complete => self.end(held, &PlanEnd::Complete).await,
        }
    }

    async fn step(&self, held: &mut HeldPlan, batch: &PlanBatch) -> Result<Next> {
        let (lease, before) = (held.plan.lease(), held.plan.counts.changed);
        let time = PlanTime { at: self.clock.now(), now: self.store.now() };
        let stepped = self.store.step_plan(lease, batch, time).await;
        redrive_store::failpoint!("engine.plan.stepped");
        // A slow commit may be visible only now, so the pace is counted from here, also after an error.
        let now = self.store.now();
        held.next_at = Some(batch.next_at(batch.units, now));
        if !held.read(stepped?, now) {
            return Ok(Next::Never);
        }
        let changed = held.plan.counts.changed.saturating_sub(before);
        held.next_at = Some(batch.next_at(u32::try_from(changed).unwrap_or(u32::MAX), now));
        held.settle_wait = SETTLE;
        held.settle_at = held.settle_at.min(after(now, SETTLE));
        Ok(Next::Now)
    }

    /// Looks at a page of pending units.
    async fn settle(&self, held: &mut HeldPlan, now: Timestamp) -> Result<Next> {
        let before = held.plan.counts.pending;
        let settled = self.store.settle_plan(
            held.plan.lease(),
            held.settle_after,
            MAX_PLAN_STEP,
            self.clock.now(),
        );
        let settled = settled.await?;
        redrive_store::failpoint!("engine.plan.settled");
        let Some((plan, next)) = settled else { return Ok(Next::Never) };
        held.settle_after = next.unwrap_or_default();
        let found = plan.counts.pending < before;
        held.settle_wait = if found { SETTLE } else { (held.settle_wait * 2).min(MAX_SETTLE) };
        held.settle_at = if next.is_some() && found { now } else { after(now, held.settle_wait) };
        held.plan = plan;
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
            PlanEnd::Complete => tracing::info!(plan, status, "the plan has ended"),
            PlanEnd::Abort(why) => tracing::warn!(plan, status, why, "the plan was aborted"),
        }
        Ok(Next::Now)
    }

    fn lease_end(&self, now: Timestamp) -> Timestamp {
        after(now, self.lease)
    }

    fn until(&self, at: Timestamp) -> Duration {
        let wait = at.duration_since(self.store.now());
        // Sleeps end a little early, and a plan would be looked at many times.
        Duration::try_from(wait).unwrap_or_default() + Duration::from_millis(1)
    }
}

impl HeldPlan {
    /// Whether units are changed or returned; else their outcomes are only watched.
    fn is_executed(&self) -> bool {
        self.plan.status == PlanStatus::Running || self.plan.undo_unit.is_some()
    }

    /// Takes over what the store answered; false if the lease is lost.
    fn read(&mut self, plan: Option<PlanRecord>, now: Timestamp) -> bool {
        let Some(plan) = plan else { return false };
        (self.plan, self.read_at) = (plan, now);
        true
    }
}

fn after(now: Timestamp, wait: Duration) -> Timestamp {
    now.checked_add(wait).unwrap_or(Timestamp::MAX)
}
