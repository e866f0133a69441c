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
    Decision, Failure, GiveUpReason, PlanBatch, PlanId, PlanSettings, PlanStatus, RunId, RunState,
};
use redrive_engine::{
    Clock, Control, PartitionRules, PlanExecutor, PlanRun, RawSink, SteadyClock, Stopper,
    freeze_plan, plan_waits_for,
};
use redrive_sqlite::{Location, SqliteOptions, SqliteStore, WriterMode};
use redrive_store::{
    Categories, ClaimRequest, JournalFilter, NewPlan, NewRun, Operator, PageLimit, PlanAction,
    PlanChange, PlanClaim, PlanOrder, PlanRecord, RunAction, RunCompletion, RunFinish, Selection,
    Store, Verdict, WorkerId,
};
use serde_json::json;
use tokio::task::JoinHandle;

const RETRY: PlanAction = PlanAction::Run(RunAction::Retry);
const LEASE: Duration = Duration::from_secs(5);

/// Lets virtual time pass.
pub(crate) async fn pass(time: Duration) {
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
        Self::in_store(Location::Memory, runs).await
    }

    async fn in_store(location: Location, runs: usize) -> Self {
        let clock = Arc::new(SteadyClock::default());
        let lease_clock = clock.clone();
        let options = SqliteOptions {
            // On the caller's thread: time stands still while the database works.
            writer: WriterMode::Inline,
            lease_clock: Some(Arc::new(move || lease_clock.now())),
            ..SqliteOptions::default()
        };
        let store = SqliteStore::open(location, options, clock.now()).unwrap();
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
            gates: Default::default(),
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
            gates: None,
        };
        let finishes: Vec<RunFinish> = claimed.iter().map(finish).collect();
        self.store.finish_runs(&finishes, now).await.unwrap();
        claimed.len()
    }

    /// A frozen plan over all runs that were given up.
    async fn plan(&self) -> PlanId {
        let plan = NewPlan {
            action: RETRY,
            selection: "{}".to_owned(),
            settings: PlanSettings::default(),
            by: self.operator(),
        };
        let dead = Selection { state: Some(RunState::GivenUp.into()), ..Selection::default() };
        let (rules, raw) = (PartitionRules::default(), RawSink::folder("raw"));
        let control = Control::new(self.store.clone(), rules, raw);
        freeze_plan(&control, &plan, &dead, |_| {}).await.unwrap().unwrap()
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
        let page = PageLimit::without_data(10_000);
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
    assert!(
        why.contains("of 10 canary units failed again, each of the same cause as before"),
        "{why}"
    );
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
    let PlanRun::Ended(ended) = world.executor("cli").run_plan(id, true, report).await.unwrap()
    else {
        panic!("nobody else executes the plan");
    };
    assert_eq!((ended.status, ended.counts.changed), (PlanStatus::Done, 7_000));
    assert!(seen.is_sorted() && seen.len() >= 7, "{seen:?}");
    assert_eq!(world.record(id).await.lease_owner, None);
    // The outcomes are watched by any executor.
    assert!(world.record(id).await.has_work());
    let again = world.executor("cli").run_plan(PlanId(99), true, |_| {}).await.unwrap();
    assert_eq!(again, PlanRun::Elsewhere);
}

// PLN-5
#[tokio::test(start_paused = true)]
async fn the_outcome_of_the_last_of_many_pending_units_is_seen_soon() {
    let world = World::after_an_outage(6_000).await;
    let id = world.plan().await;
    world.apply(id, None, "").await;
    let (_stopper, _running) = world.start("e1");
    world.until(id, false, |plan| plan.status == PlanStatus::Done).await;
    // Nothing ends for so long that it is seldom looked for.
    pass(Duration::from_secs(600)).await;
    let newest = Selection { state: Some(RunState::Discovered.into()), ..Selection::default() };
    let page = PageLimit::without_data(10_000);
    let runs = world.store.runs_page(&newest, RunId(0), page).await.unwrap();
    let last = runs.last().unwrap().id;
    world.store.cancel_runs(&[last], &world.operator()).await.unwrap();
    pass(Duration::from_secs(11)).await;
    let plan = world.record(id).await;
    assert_eq!((plan.superseded, plan.counts.pending), (1, 5_999));
}

// PLN-2, PLN-5
#[tokio::test(start_paused = true)]
async fn many_outcomes_do_not_delay_steps() {
    let world = World::after_an_outage(6_000).await;
    world.outage.store(false, Ordering::Relaxed);
    let id = world.plan().await;
    world.apply(id, None, "1000/s").await;
    let (_stopper, _running) = world.start("e1");
    let begun = world.clock.now();
    // Every unit ends at once, so that every page of pending units has outcomes.
    let plan = world.until(id, true, |plan| plan.status == PlanStatus::Done).await;
    let took = world.clock.now().duration_since(begun).as_secs_f64();
    assert!((5.8..8.0).contains(&took), "{took} s");
    assert!(plan.counts.recovered > 5_000, "{:?}", plan.counts);
}

// PLN-2
#[tokio::test(start_paused = true)]
async fn a_clock_that_starts_again_does_not_stop_a_plan() {
    let world = World::after_an_outage(100).await;
    let id = world.plan().await;
    world.apply(id, None, "50/s").await;
    let now = world.clock.now();
    let claim = PlanClaim {
        owner: WorkerId("before".to_owned()),
        lease_until: now,
        now,
        only: None,
        except: Vec::new(),
        limit: 1,
    };
    let lease = world.store.claim_plans(&claim).await.unwrap()[0].lease();
    let day = Duration::from_secs(86_400);
    let batch = PlanBatch { units: 1, position: 0, interval: day, ramp_from: None };
    world.store.step_plan(lease, &batch, now).await.unwrap().unwrap();
    let (_stopper, _running) = world.start("e1");
    world.until(id, false, |plan| plan.status == PlanStatus::Done).await;
    let took = world.clock.now().duration_since(now).as_secs_f64();
    assert!(took < 5.0, "{took} s");
}

// PLN-2
#[tokio::test(start_paused = true)]
async fn a_plan_says_why_its_pending_units_cannot_end() {
    let world = World::after_an_outage(20).await;
    let id = world.plan().await;
    world.apply(id, Some(5), "").await;
    world.store.pause_queue("q", &world.operator()).await.unwrap();
    let (_stopper, _running) = world.start("e1");
    let plan = world.until(id, true, |plan| plan.counts.changed == 5).await;
    let waits = async |is_served: bool| {
        plan_waits_for(&*world.store, &plan, |_, _| is_served).await.unwrap()
    };
    let why = waits(true).await;
    let paused = "5 pending units cannot end, because queue q is paused: `redrive queue resume q`";
    assert_eq!(why, [paused]);
    world.store.resume_queue("q", &world.operator()).await.unwrap();
    assert_eq!(waits(true).await, [] as [String; 0]);
    let unserved =
        "5 pending units cannot end, because no worker of this configuration serves queue q";
    assert_eq!(waits(false).await, [unserved]);
}

// PLN-3
#[tokio::test(start_paused = true)]
async fn a_plan_that_fails_with_an_error_holds_up_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.db");
    let world = World::in_store(Location::File(file.clone()), 300).await;
    let database = rusqlite::Connection::open(&file).unwrap();
    world.outage.store(false, Ordering::Relaxed);
    let (bad, good) = (world.plan().await, world.plan().await);
    // Both are over the same units: what one changes, the other skips.
    world.apply(bad, None, "").await;
    world.apply(good, None, "100/s").await;
    let broken = format!(
        "CREATE TRIGGER broken BEFORE UPDATE ON plan_units WHEN OLD.plan_id = {bad}
         BEGIN SELECT RAISE(ABORT, 'broken'); END"
    );
    database.execute_batch(&broken).unwrap();
    let begun = world.clock.now();
    let (_stopper, _running) = world.start("e1");
    world.until(good, true, |plan| plan.status == PlanStatus::Done).await;
    let took = world.clock.now().duration_since(begun).as_secs_f64();
    assert!(took < 5.0, "{took} s");
    let plan = world.record(bad).await;
    assert_eq!((plan.status, plan.counts.position()), (PlanStatus::Running, 0));
    assert!(plan.lease_until > Some(world.clock.now()), "it keeps its lease: {plan:?}");
    database.execute_batch("DROP TRIGGER broken").unwrap();
    world.until(bad, true, |plan| plan.status == PlanStatus::Done).await;
}

// PLN-3
#[tokio::test(start_paused = true)]
async fn an_error_about_a_plan_holds_up_no_other_and_frees_the_plan() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.db");
    let world = World::in_store(Location::File(file.clone()), 4).await;
    let database = rusqlite::Connection::open(&file).unwrap();
    world.outage.store(false, Ordering::Relaxed);
    let (bad, good) = (world.plan().await, world.plan().await);
    for id in [bad, good] {
        world.apply(id, None, "").await;
    }
    let step = async |id, units| {
        let now = world.clock.now();
        let claim = PlanClaim {
            owner: WorkerId("before".to_owned()),
            lease_until: now + LEASE,
            now,
            only: Some(id),
            except: Vec::new(),
            limit: 1,
        };
        let lease = world.store.claim_plans(&claim).await.unwrap()[0].lease();
        let batch = PlanBatch { units, position: 0, interval: Duration::ZERO, ramp_from: None };
        world.store.step_plan(lease, &batch, now).await.unwrap().unwrap();
        let _ = world.store.release_plan(lease).await.unwrap();
    };
    step(bad, 2).await;
    step(good, 2).await;
    world.work(10).await;
    let broken = format!(
        "CREATE TRIGGER broken BEFORE UPDATE ON plan_units WHEN OLD.plan_id = {bad}
         BEGIN SELECT RAISE(ABORT, 'broken'); END"
    );
    database.execute_batch(&broken).unwrap();
    world.executor("e1").settle_once(None).await.unwrap();
    let (left, settled) = (world.record(bad).await, world.record(good).await);
    assert_eq!((left.counts.pending, left.lease_owner), (2, None));
    assert_eq!((settled.counts.pending, settled.lease_owner), (0, None));
    world.executor("cli").run_plan(bad, true, |_| {}).await.unwrap_err();
    assert_eq!(world.record(bad).await.lease_owner, None);
}

// PLN-3
#[tokio::test(start_paused = true)]
async fn plans_that_wait_hold_up_no_other() {
    let world = World::after_an_outage(40).await;
    world.outage.store(false, Ordering::Relaxed);
    // Each waits a day after a unit, or for a canary that nobody tries.
    for number in 0..40 {
        let id = world.plan().await;
        let (canary, pace) = if number % 2 == 0 { (Some(1), "") } else { (None, "1/d") };
        world.apply(id, canary, pace).await;
    }
    let last = world.plan().await;
    world.apply(last, None, "").await;
    let (_stopper, _running) = world.start("e1");
    pass(Duration::from_secs(30)).await;
    assert_eq!(world.record(last).await.status, PlanStatus::Done);
}

// PLN-1
#[tokio::test(start_paused = true)]
async fn many_units_that_are_all_refused_make_no_plan() {
    let world = World::after_an_outage(5_001).await;
    let plan = NewPlan {
        action: RETRY,
        selection: "{}".to_owned(),
        settings: PlanSettings::default(),
        by: world.operator(),
    };
    world.outage.store(false, Ordering::Relaxed);
    let id = world.plan().await;
    world.apply(id, None, "").await;
    world.executor("cli").run_plan(id, true, |_| {}).await.unwrap();
    while world.work(1_000).await > 0 {}
    let passed = Selection { state: Some(RunState::Passed.into()), ..Selection::default() };
    let (rules, raw) = (PartitionRules::default(), RawSink::folder("raw"));
    let control = Control::new(world.store.clone(), rules, raw);
    assert_eq!(freeze_plan(&control, &plan, &passed, |_| {}).await.unwrap(), None);
    let plans = world.store.plans_page(PlanId(i64::MAX), 10).await.unwrap();
    assert_eq!(plans.iter().map(|plan| plan.id).collect::<Vec<_>>(), [id]);
}

// PLN-2
#[tokio::test(start_paused = true)]
async fn a_plan_that_is_only_watched_is_seldom_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.db");
    let world = World::in_store(Location::File(file.clone()), 20).await;
    let id = world.plan().await;
    world.apply(id, None, "").await;
    let (_stopper, _running) = world.start("e1");
    world.until(id, false, |plan| plan.status == PlanStatus::Done).await;
    let database = rusqlite::Connection::open(&file).unwrap();
    let version =
        || -> i64 { database.query_row("PRAGMA data_version", [], |row| row.get(0)).unwrap() };
    let mut writes = 0;
    for _ in 0..600 {
        let before = version();
        pass(Duration::from_millis(100)).await;
        writes += i64::from(version() != before);
    }
    // The lease is five seconds, and renewed after a third of it.
    assert!((20..=60).contains(&writes), "{writes} writes in a minute");
}
