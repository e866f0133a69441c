//! Plans over partitions, which executors check once more before they change them.

use std::{collections::HashSet, sync::Arc, time::Duration};

use redrive_core::{
    Cause, Failure, PartitionKey, PlanId, PlanSettings, PlanStatus, Policy, PolicySpec,
};
use redrive_engine::{
    Clock, Control, ObjectService, PartitionRules, PlanExecutor, RawSink, SteadyClock, Stopper,
    plan_waits_for, plan_waits_for_check,
};
use redrive_sqlite::{Location, SqliteOptions, SqliteStore, WriterMode};
use redrive_store::{
    AuditContext, BackfillShare, GateRules, Lane, NamedPartition, NewPlan, Operator,
    PartitionAction, PartitionClaim, PartitionFinish, PartitionVerdict, PlanAction, PlanOrder,
    PlanOutcome, PlanRecord, PlanUnit, PlannedUnit, Selection, Store, WorkerId,
};

use crate::plans::pass;

const RETRY: PartitionAction = PartitionAction::Retry { clear_terminal: false, lane: Lane::Fresh };

struct World {
    store: Arc<dyn Store>,
    clock: Arc<SteadyClock>,
    raw: RawSink,
}

impl World {
    /// Failed partitions of these sources, one after the other.
    async fn with_failed(sources: &[&str], why: &str, raw: RawSink) -> Self {
        let clock = Arc::new(SteadyClock::default());
        let lease_clock = clock.clone();
        let options = SqliteOptions {
            // On the caller's thread: time stands still while the database works.
            writer: WriterMode::Inline,
            lease_clock: Some(Arc::new(move || lease_clock.now())),
            ..SqliteOptions::default()
        };
        let store = SqliteStore::open(Location::Memory, options, clock.now()).unwrap();
        let world = Self { store: Arc::new(store), clock, raw };
        for (day, source) in sources.iter().enumerate() {
            world.fail(&format!("{source}/7/daily/2026-01-{:02}", day + 1), why).await;
        }
        world
    }

    fn operator(&self) -> Operator {
        Operator { actor: "ada".to_owned(), at: self.clock.now(), reason: None }
    }

    async fn change(&self, key: &PartitionKey, action: PartitionAction) {
        let command = "test".to_owned();
        let audit = AuditContext { by: self.operator(), command, filter: None, flags: Vec::new() };
        let named = [NamedPartition::from(key.clone())];
        self.store.change_partitions(&action, &named, &audit).await.unwrap();
    }

    async fn fail(&self, key: &str, why: &str) {
        let (store, now) = (&self.store, self.clock.now());
        let key: PartitionKey = key.parse().unwrap();
        self.change(&key, PartitionAction::Backfill { force_pending: false, lane: Lane::Fresh })
            .await;
        let claim = PartitionClaim {
            gates: GateRules::default(),
            now,
            source: key.source().to_owned(),
            run_ids: vec![key.to_string().replace('/', "-").parse().unwrap()],
            backfill: BackfillShare::default(),
            owner: WorkerId("w".to_owned()),
            lease_until: store.now() + Duration::from_secs(60),
        };
        let claimed = store.claim_partitions(&claim).await.unwrap().remove(0);
        let failure = Failure::named("too_few_rows", Cause::Validator, why);
        let finish = PartitionFinish {
            gates: None,
            key,
            lease: claimed.lease,
            attempt: claimed.attempt,
            run_id: claimed.run_id,
            started_at: now,
            ended_at: now,
            worker: WorkerId("w".to_owned()),
            verdict: PartitionVerdict::Rejected { failure },
        };
        store.finish_partitions(&[finish]).await.unwrap();
    }

    fn control(&self, rules: PartitionRules) -> Control {
        Control::new(self.store.clone(), rules, self.raw.clone())
    }

    /// A plan over all partitions, which runs.
    async fn plan(&self, action: PlanAction) -> PlanId {
        let (settings, selection) = (PlanSettings::default(), "{}".to_owned());
        let plan = NewPlan { action, selection, settings, by: self.operator() };
        let id = self.store.create_plan(&plan).await.unwrap();
        let all =
            self.store.partitions_page(&Selection::default(), None, 100.into()).await.unwrap();
        let all = all.into_iter().map(PlanUnit::Partition);
        let units: Vec<_> = all.map(|unit| PlannedUnit::new(action, &unit)).collect();
        let _ = self.store.add_plan_units(id, &units).await.unwrap();
        let _ = self.store.freeze_plan(id, self.clock.now()).await.unwrap();
        let apply = PlanOrder::Apply(settings);
        self.store.change_plan(id, &apply, &self.operator()).await.unwrap();
        id
    }

    fn executor(&self, name: &str, sources: &[&str]) -> PlanExecutor {
        PlanExecutor::new(self.store.clone(), WorkerId(name.to_owned()))
            .with_clock(self.clock.clone())
            .with_partitions(self.control(PartitionRules::default()))
            .with_sources(sources.iter().map(|source| (*source).to_owned()))
    }

    async fn record(&self, id: PlanId) -> PlanRecord {
        self.store.plans_by_id(&[id]).await.unwrap().remove(0)
    }
}

/// What a plan over partitions without raw data waits for where these sources are declared.
async fn waits(world: &World, plan: PlanId, declared: &[&str]) -> Option<String> {
    let declared: HashSet<&str> = declared.iter().copied().collect();
    let (control, plan) = (world.control(PartitionRules::default()), world.record(plan).await);
    let is_declared = |source: &str| declared.contains(source);
    plan_waits_for_check(&control, &plan, is_declared, world.clock.now()).await.unwrap()
}

/// Failed without raw data, which need none to be retried.
const NO_DATA: &str = "no raw partition: the service was down";

fn no_raw() -> RawSink {
    RawSink::folder("raw")
}

// PLN-3
#[tokio::test(start_paused = true)]
async fn a_plan_over_several_sources_goes_on_where_the_next_is_declared() {
    let world = World::with_failed(&["ads", "ads", "web", "ads", "web"], NO_DATA, no_raw()).await;
    let id = world.plan(PlanAction::Partition(RETRY)).await;
    let mut stoppers = Vec::new();
    let mut start = |name: &str, sources: &[&str]| {
        let (stopper, stop) = Stopper::new();
        let executor = world.executor(name, sources);
        tokio::spawn(async move { executor.run(stop).await });
        stoppers.push(stopper);
    };
    start("a", &["ads"]);
    pass(Duration::from_secs(60)).await;
    let plan = world.record(id).await;
    assert_eq!((plan.status, plan.counts.changed), (PlanStatus::Running, 2));
    let why = waits(&world, id, &["ads"]).await.unwrap();
    assert!(why.starts_with("the next partition is of source web"), "{why}");
    assert_eq!(waits(&world, id, &["ads", "web"]).await, None);

    start("b", &["web"]);
    pass(Duration::from_secs(60)).await;
    let plan = world.record(id).await;
    assert_eq!((plan.status, plan.counts.changed), (PlanStatus::Done, 5));
}

// PLN-4
#[tokio::test(start_paused = true)]
async fn a_plan_names_the_partition_that_an_operator_paused() {
    let world = World::with_failed(&["ads", "ads"], NO_DATA, no_raw()).await;
    let id = world.plan(PlanAction::Partition(RETRY)).await;
    world.change(&"ads/7/daily/2026-01-02".parse().unwrap(), PartitionAction::Pause).await;
    let (stopper, stop) = Stopper::new();
    let executor = world.executor("a", &["ads"]);
    let executing = tokio::spawn(async move { executor.run(stop).await });
    pass(Duration::from_secs(5)).await;
    let plan = world.record(id).await;
    assert_eq!((plan.status, plan.counts.pending), (PlanStatus::Done, 2));
    let waits = plan_waits_for(&*world.store, &plan, |_, _| true).await.unwrap();
    let paused = "1 pending unit cannot end, because an operator paused the partition: \
                  `redrive state resume partition:ads/7/daily/2026-01-02`";
    assert_eq!(waits, [paused]);
    stopper.stop();
    executing.await.unwrap();
}

// PLN-3
#[tokio::test(start_paused = true)]
async fn a_forced_plan_does_not_retry_what_its_policy_has_given_up_since() {
    let world = World::with_failed(&["ads", "web"], "too few rows", no_raw()).await;
    let [plain, cleared] = [false, true].map(|clear_terminal| {
        PlanAction::ForcedPartition(PartitionAction::Retry { clear_terminal, lane: Lane::Fresh })
    });
    let (plain, cleared) = (world.plan(plain).await, world.plan(cleared).await);
    let once = PolicySpec { max_attempts: Some(1), ..PolicySpec::default() };
    let once = Policy::new(once).unwrap();
    let rules = PartitionRules::default().with_policy("ads", once);
    let executor = world.executor("a", &["ads", "web"]).with_partitions(world.control(rules));
    executor.run_plan(plain, false, |_| {}).await.unwrap();
    let units = world.store.plan_units_page(plain, None, 0, 10).await.unwrap();
    let outcomes: Vec<_> = units.iter().map(|unit| unit.outcome).collect();
    assert_eq!(outcomes, [PlanOutcome::Skipped, PlanOutcome::Pending].map(Some));
    let why = units[0].reason.as_deref().unwrap();
    assert!(why.contains("terminal"), "{why}");
    executor.run_plan(cleared, false, |_| {}).await.unwrap();
    assert_eq!(world.record(cleared).await.counts.changed, 1);
}

// PLN-3
#[tokio::test]
async fn a_stop_does_not_wait_for_a_raw_sink_that_does_not_answer() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let environment = [
        ("AWS_ENDPOINT", endpoint.as_str()),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_REGION", "local"),
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ];
    let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let raw = RawSink::bucket(ObjectService::S3, "bucket", "", environment).unwrap();
    let world = World::with_failed(&["ads"], "too few rows", raw).await;
    let id = world.plan(PlanAction::Partition(RETRY)).await;
    let (stopper, stop) = Stopper::new();
    let executor = world.executor("a", &["ads"]);
    let running = tokio::spawn(async move { executor.run(stop).await });
    let asked = silent.accept().await.unwrap();
    stopper.stop();
    tokio::time::timeout(Duration::from_secs(5), running).await.unwrap().unwrap();
    drop(asked);
    let plan = world.record(id).await;
    assert_eq!((plan.lease_owner, plan.counts.changed), (None, 0));
}
