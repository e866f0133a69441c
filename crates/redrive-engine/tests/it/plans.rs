//! Plans as executors apply them, in virtual time: canary, pace, kills, orders and undo.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use redrive_core::{
    Decision, Failure, GiveUpReason, PlanId, PlanSettings, PlanStatus, RunId, RunState,
};
use redrive_engine::{Clock, PlanExecutor, SteadyClock, Stopper, freeze_plan};
use redrive_sqlite::{Location, SqliteOptions, SqliteStore, WriterMode};
use redrive_store::{
    Categories, ClaimRequest, JournalFilter, NewPlan, NewRun, Operator, PageLimit, PlanAction,
    PlanChange, PlanOrder, PlanRecord, RunAction, RunCompletion, RunFinish, Selection, Store,
    Verdict, WorkerId,
};
use serde_json::json;
use tokio::task::JoinHandle;

const RETRY: PlanAction = PlanAction::Run(RunAction::Retry);
const LEASE: Duration = Duration::from_secs(5);

/// Lets virtual time pass.
async fn pass(time: Duration) {
    _ = tokio::time::timeout(time, std::future::pending::<()>()).await;
}

struct World {
    store: Arc<dyn Store>,
    clock: Arc<SteadyClock>,
    /// Whether every attempt fails, as all did before.
    outage: Arc<AtomicBool>,
}

impl World {
    /// Runs that were all given up in an outage, which goes on.
    async fn after_an_outage(runs: usize) -> Self {
        let clock = Arc::new(SteadyClock::default());
        let lease_clock = clock.clone();
        let options = SqliteOptions {
            // On the caller's thread: time stands still while the database works.
            writer: WriterMode::Inline,
            lease_clock: Some(Arc::new(move || lease_clock.now())),
            ..SqliteOptions::default()
        };
        let store = SqliteStore::open(Location::Memory, options, clock.now()).unwrap();
        let world = Self { store: Arc::new(store), clock, outage: Arc::new(true.into()) };
        let new = NewRun::new("q", &json!({}), world.clock.now()).unwrap();
        world.store.submit_runs(&vec![new; runs], world.clock.now()).await.unwrap();
        while world.work(1_000).await > 0 {}
        world
    }

    fn operator(&self) -> Operator {
        let reason = Some("the outage is over".to_owned());
        Operator { actor: "ada".to_owned(), at: self.clock.now(), reason }
    }

    /// Claims and finishes runs, as a worker does, and returns how many.
    async fn work(&self, limit: u32) -> usize {
        let now = self.clock.now();
        let claim = ClaimRequest {
            queue: "q".to_owned(),
            categories: Categories::All,
            limit,
            owner: WorkerId("w".to_owned()),
            lease_until: now + Duration::from_secs(60),
            now,
        };
        let claimed = self.store.claim_runs(&claim).await.unwrap();
        let completion = || match self.outage.load(Ordering::Relaxed) {
            true => RunCompletion::Failed {
                failure: Failure::http(503, None, "the provider is down"),
                decision: Decision::GiveUp { reason: GiveUpReason::AttemptsExhausted },
            },
            false => RunCompletion::Judged { verdict: Verdict::Passed, result: None },
        };
        let finish = |run: &redrive_store::ClaimedRun| RunFinish {
            id: run.id,
            epoch: run.epoch,
            attempt: run.attempt,
            history: run.history,
            started_at: now,
            ended_at: now,
            worker: WorkerId("w".to_owned()),
            completion: completion(),
        };
        let finishes: Vec<RunFinish> = claimed.iter().map(finish).collect();
        self.store.finish_runs(&finishes, now).await.unwrap();
        claimed.len()
    }

    /// A frozen plan over all runs that were given up.
    async fn plan(&self) -> PlanId {
        let plan = NewPlan { action: RETRY, selection: "{}".to_owned(), by: self.operator() };
        let dead = Selection { state: Some(RunState::GivenUp.into()), ..Selection::default() };
        freeze_plan(&*self.store, &plan, &[dead], &|_| None).await.unwrap()
    }

    async fn order(&self, id: PlanId, order: PlanOrder) {
        let change = self.store.change_plan(id, &order, &self.operator()).await.unwrap();
        assert!(matches!(change, PlanChange::Done(_)), "{change:?}");
    }

    async fn apply(&self, id: PlanId, canary: Option<u64>, pace: &str) {
        let pace = (!pace.is_empty()).then(|| pace.parse().unwrap());
        let settings = PlanSettings::new(canary, pace, None, None).unwrap();
        self.order(id, PlanOrder::Apply(settings)).await;
    }

    fn executor(&self, name: &str) -> PlanExecutor {
        PlanExecutor::new(self.store.clone(), WorkerId(name.to_owned()))
            .with_clock(self.clock.clone())
            .with_lease(LEASE)
    }

    fn start(&self, name: &str) -> (Stopper, JoinHandle<()>) {
        let (stopper, stop) = Stopper::new();
        let executor = self.executor(name);
        (stopper, tokio::spawn(async move { executor.run(stop).await }))
    }

    async fn record(&self, id: PlanId) -> PlanRecord {
        self.store.plans_by_id(&[id]).await.unwrap().remove(0)
    }

    /// Lets time pass, with or without a worker, until the plan is as wanted.
    async fn until(
        &self,
        id: PlanId,
        works: bool,
        wanted: impl Fn(&PlanRecord) -> bool,
    ) -> PlanRecord {
        for _ in 0..100_000 {
            let plan = self.record(id).await;
            if wanted(&plan) {
                return plan;
            }
            if works {
                self.work(100).await;
            }
            pass(Duration::from_millis(20)).await;
        }
        panic!("{:?}", self.record(id).await);
    }

    async fn states(&self) -> BTreeMap<&'static str, usize> {
        let page = PageLimit { rows: 10_000, with_data: false };
        let runs = self.store.runs_page(&Selection::default(), RunId(0), page).await.unwrap();
        let mut states = BTreeMap::new();
        runs.iter().for_each(|run| *states.entry(run.state().name()).or_default() += 1);
        states
    }

    /// When the plan changed each unit.
    async fn changes(&self) -> Vec<(String, Timestamp)> {
        let filter = JournalFilter { unit: None, action: Some("run.retry".to_owned()) };
        let page = self.store.journal_page(&filter, 0, 10_000).await.unwrap();
        page.into_iter().map(|record| (record.entry.unit.unwrap(), record.entry.at)).collect()
    }
}

// PLN-2, PLN-5
#[tokio::test(start_paused = true)]
async fn a_canary_that_fails_leaves_the_rest_unchanged() {
    let world = World::after_an_outage(2_000).await;
    let id = world.plan().await;
    world.apply(id, Some(10), "").await;
    let (_stopper, _running) = world.start("e1");
    let plan = world.until(id, true, |plan| plan.status != PlanStatus::Running).await;
    assert_eq!(plan.status, PlanStatus::Aborted);
    let why = plan.stop_reason.unwrap();
    assert!(why.contains("of 10 canary units failed again, all of the same cause"), "{why}");
    let plan = world.until(id, true, |plan| plan.counts.pending == 0).await;
    assert_eq!((plan.counts.changed, plan.counts.same_cause, plan.counts.rest()), (10, 10, 1_990));
    assert_eq!(world.states().await, BTreeMap::from([("error, given up", 2_000)]));
    assert_eq!(world.changes().await.len(), 10);

    // The outage ends, and a new plan takes the same units.
    world.outage.store(false, Ordering::Relaxed);
    let id = world.plan().await;
    world.apply(id, Some(10), "").await;
    let plan = world.until(id, true, |plan| plan.counts.recovered == 2_000).await;
    assert_eq!(plan.status, PlanStatus::Done);
    assert_eq!(world.states().await, BTreeMap::from([("passed", 2_000)]));
    let plan = world.until(id, true, |plan| plan.lease_owner.is_none()).await;
    assert!(!plan.has_work());
}

// PLN-2
#[tokio::test(start_paused = true)]
async fn a_canary_that_is_not_tried_is_waited_for() {
    let world = World::after_an_outage(50).await;
    let id = world.plan().await;
    world.apply(id, Some(5), "").await;
    let (_stopper, _running) = world.start("e1");
    pass(Duration::from_secs(3_600)).await;
    let plan = world.record(id).await;
    assert_eq!((plan.status, plan.counts.changed), (PlanStatus::Running, 5));
    world.outage.store(false, Ordering::Relaxed);
    world.until(id, true, |plan| plan.status == PlanStatus::Done).await;
}

// PLN-2, PLN-3
#[tokio::test(start_paused = true)]
async fn killed_executors_are_followed_and_the_pace_is_kept() {
    let world = World::after_an_outage(1_000).await;
    let id = world.plan().await;
    world.apply(id, None, "50/s").await;
    for (number, lived) in [700, 1, 2_345, 4_999, 10, 333, 5_000].into_iter().enumerate() {
        let (_stopper, running) = world.start(&format!("e{number}"));
        pass(Duration::from_millis(lived)).await;
        running.abort();
        assert!(running.await.unwrap_err().is_cancelled());
        pass(LEASE / 2).await;
    }
    let (_stopper, _running) = world.start("last");
    let plan = world.until(id, false, |plan| plan.status == PlanStatus::Done).await;
    assert_eq!((plan.counts.changed, plan.counts.skipped), (1_000, 0));

    let changes = world.changes().await;
    let distinct: BTreeMap<_, _> = changes.iter().cloned().collect();
    assert_eq!((changes.len(), distinct.len()), (1_000, 1_000), "each unit once");
    for (place, (_, from)) in changes.iter().enumerate() {
        let within =
            |at: &Timestamp| at.duration_since(*from).unsigned_abs() < Duration::from_secs(1);
        let window = changes[place..].iter().take_while(|(_, at)| within(at)).count();
        assert!(window <= 50, "{window} units in the second from {from}");
    }
    let took = changes[999].1.duration_since(changes[0].1).as_secs();
    assert!((20..90).contains(&took), "{took} seconds");
}

// PLN-4
#[tokio::test(start_paused = true)]
async fn a_plan_is_paused_resumed_and_undone_half_way() {
    let world = World::after_an_outage(500).await;
    world.outage.store(false, Ordering::Relaxed);
    let id = world.plan().await;
    world.apply(id, None, "50/s").await;
    let (stopper, running) = world.start("e1");
    world.until(id, true, |plan| plan.counts.recovered >= 100).await;
    world.order(id, PlanOrder::Pause).await;
    pass(Duration::from_secs(2)).await;
    let paused = world.record(id).await.counts.changed;
    pass(Duration::from_secs(60)).await;
    assert_eq!(world.record(id).await.counts.changed, paused);

    world.order(id, PlanOrder::Resume).await;
    // No worker takes what is changed from here on.
    world.until(id, false, |plan| plan.counts.pending >= 100).await;
    world.order(id, PlanOrder::Undo).await;
    let plan = world.until(id, false, |plan| plan.counts.pending == 0).await;
    assert_eq!((plan.status, plan.undo_unit), (PlanStatus::Undone, None));
    assert!(plan.undone >= 100 && plan.counts.rest() > 0, "{plan:?}");
    let recovered = plan.counts.recovered as usize;
    let expected = BTreeMap::from([("passed", recovered), ("error, given up", 500 - recovered)]);
    assert_eq!(world.states().await, expected);
    stopper.stop();
    running.await.unwrap();
    assert_eq!(world.work(100).await, 0);
}

// PLN-3
#[tokio::test(start_paused = true)]
async fn executors_share_plans_and_a_stopped_one_releases_them() {
    let world = World::after_an_outage(90).await;
    world.outage.store(false, Ordering::Relaxed);
    let mut plans = Vec::new();
    for _ in 0..3 {
        plans.push(world.plan().await);
    }
    for id in &plans {
        world.apply(*id, None, "10/s").await;
    }
    let (stopper, running) = world.start("e1");
    pass(Duration::from_secs(2)).await;
    stopper.stop();
    running.await.unwrap();
    for id in &plans {
        assert_eq!(world.record(*id).await.lease_owner, None);
    }
    let (_one, _first) = world.start("e2");
    let (_two, _second) = world.start("e3");
    let mut changed = 0;
    for id in &plans {
        let plan = world.until(*id, true, |plan| plan.status == PlanStatus::Done).await;
        changed += plan.counts.changed;
        assert_eq!(plan.counts.changed + plan.counts.skipped, 90);
    }
    assert_eq!(changed, 90, "what one plan changed is skipped by the others");
}

// PLN-2
#[tokio::test(start_paused = true)]
async fn a_command_can_execute_its_own_plan() {
    let world = World::after_an_outage(7_000).await;
    let id = world.plan().await;
    let plan = world.record(id).await;
    assert_eq!((plan.counts.total, plan.status), (7_000, PlanStatus::Draft));
    world.apply(id, None, "").await;
    let mut seen = Vec::new();
    let report = |plan: &PlanRecord| seen.push(plan.counts.changed);
    let ended = world.executor("cli").run_plan(id, report).await.unwrap().unwrap();
    assert_eq!((ended.status, ended.counts.changed), (PlanStatus::Done, 7_000));
    assert!(seen.is_sorted() && seen.len() >= 7, "{seen:?}");
    assert_eq!(world.record(id).await.lease_owner, None);
    // The outcomes are watched by any executor.
    assert!(world.record(id).await.has_work());
    let again = world.executor("cli").run_plan(PlanId(99), |_| {}).await.unwrap();
    assert_eq!(again, None);
}
