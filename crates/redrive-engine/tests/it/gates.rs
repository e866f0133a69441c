//! Gates that two hosts share.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use redrive_core::{
    AttemptNumber, Backoff, Failure, GateSettings, Jitter, PartitionKey, Policy, PolicySpec, Preset,
};
use redrive_engine::{
    Call, Clock, Engine, Handler, Outcome, Queue, RawSink, RowWriter, Source, Stopper, SystemClock,
    Until, extractor_fn, handler_fn,
};
use redrive_sqlite::{Location, SqliteOptions, SqliteStore};
use redrive_store::{
    AttemptOutcome, AttemptRecord, AuditContext, Categories, GateOrder, GateRule, Lane,
    NamedPartition, NewRun, Operator, PageLimit, PartitionAction, Selection, Store, UnitKind,
    UnitRow,
};
use serde_json::json;
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

use crate::program::soon;

const HOSTS: usize = 2;
const CONCURRENCY: usize = 4;

async fn store_with(runs: u32) -> Arc<dyn Store> {
    let now = SystemClock.now();
    let store = SqliteStore::open(Location::Memory, SqliteOptions::default(), now).unwrap();
    let new: Vec<NewRun> =
        (0..runs).map(|n| NewRun::new("jobs", &json!(n), now).unwrap()).collect();
    let store: Arc<dyn Store> = Arc::new(store);
    store.submit_runs(&new, now).await.unwrap();
    store
}

/// Drains the queue with as many engines as there are hosts.
async fn drain(store: &Arc<dyn Store>, settings: GateSettings, handler: Arc<dyn Handler>) {
    let gate = GateRule { name: "api".to_owned(), is_keyed: true, settings };
    let mut hosts = tokio::task::JoinSet::new();
    for _ in 0..HOSTS {
        let queue = Queue::new("jobs", handler.clone())
            .with_concurrency(CONCURRENCY)
            .with_gates(vec![gate.clone()]);
        let engine = Engine::new(store.clone()).with_queue(queue);
        hosts.spawn(async move {
            let (_stopper, stop) = Stopper::new();
            engine.run(stop, Until::Drained).await.unwrap();
        });
    }
    soon(hosts.join_all()).await;
}

fn answered() -> Outcome {
    Outcome::Answered { value: None, verdict: None }
}

/// `concurrency`, `rate`.
fn limits(concurrency: Option<u32>, rate: Option<&str>) -> GateSettings {
    let rate = rate.map(|rate| rate.parse().unwrap());
    GateSettings::new(rate, concurrency, None, Duration::from_secs(1), Duration::from_secs(2))
        .unwrap()
}

async fn attempts(store: &Arc<dyn Store>) -> Vec<u32> {
    let limit = PageLimit::without_data(1_000);
    let runs = store.runs_page(&Selection::default(), redrive_core::RunId(0), limit).await;
    runs.unwrap().iter().map(|run| run.attempts).collect()
}

// GAT-2, GAT-3, GAT-4
#[tokio::test]
async fn one_refusal_stops_all_hosts_and_nothing_behind_it_is_counted() {
    let store = store_with(200).await;
    let closed_until: Arc<Mutex<Option<Instant>>> = Arc::default();
    let refused = Arc::new(AtomicUsize::new(0));
    let handler = handler_fn({
        let refused = refused.clone();
        move |_: Call| {
            let until = *closed_until
                .lock()
                .unwrap()
                .get_or_insert_with(|| Instant::now() + Duration::from_millis(900));
            let outcome = if Instant::now() < until {
                refused.fetch_add(1, Ordering::SeqCst);
                Outcome::Failed(Failure::http(429, Some(Duration::from_secs(1)), "slow down"))
            } else {
                answered()
            };
            async { outcome }
        }
    });
    drain(&store, limits(None, None), handler).await;
    let refused = refused.load(Ordering::SeqCst);
    // What ran at once, and what each host had claimed ahead and started before it learned of the closing.
    assert!(refused <= 4 * HOSTS * CONCURRENCY, "{refused} of 200 runs were refused");
    let attempts = attempts(&store).await;
    assert_eq!(attempts.len(), 200);
    let twice = attempts.iter().filter(|attempts| **attempts == 2).count();
    assert_eq!((twice, attempts.iter().max()), (refused, Some(&2)), "the others were not tried");
    let gate = store.gate_rows(&[("api", "")]).await.unwrap().pop().unwrap();
    assert!(gate.is_open() && gate.held.all == 0, "{gate:?}");
    let told =
        store.journal_page(&redrive_store::JournalFilter::default(), 0, 1_000).await.unwrap();
    let told: Vec<&str> = told.iter().map(|row| row.entry.action.as_str()).collect();
    let told: Vec<&&str> = told.iter().filter(|action| action.starts_with("gate.")).collect();
    assert_eq!(told, [&"gate.closed", &"gate.opened"]);
}

/// Retries after a millisecond.
fn at_once() -> PolicySpec {
    let millisecond = Duration::from_millis(1);
    PolicySpec {
        backoff: Backoff::Fixed,
        base: millisecond,
        cap: millisecond,
        jitter: Jitter::None,
        ..Preset::Run.policy().spec().clone()
    }
}

/// A service that limits the rate at first, then fails the probe, and then answers.
async fn attempts_under(policy: PolicySpec, settings: GateSettings) -> Vec<AttemptRecord> {
    let store = store_with(1).await;
    let calls = AtomicUsize::new(0);
    let handler = handler_fn(move |_: Call| {
        let outcome = match calls.fetch_add(1, Ordering::SeqCst) {
            0 => Outcome::Failed(Failure::http(429, Some(Duration::from_secs(1)), "slow down")),
            1 => Outcome::Failed(Failure::http(503, None, "down")),
            _ => answered(),
        };
        async { outcome }
    });
    let gate = GateRule { name: "api".to_owned(), is_keyed: true, settings };
    let queue = Queue::new("jobs", handler)
        .with_policy(Policy::new(policy).unwrap())
        .with_gates(vec![gate]);
    let (_stopper, stop) = Stopper::new();
    soon(Engine::new(store.clone()).with_queue(queue).run(stop, Until::Drained)).await.unwrap();
    let run = UnitRow::new(UnitKind::Run, 1);
    store.attempts_of(&run, AttemptNumber(0), 10).await.unwrap()
}

// GAT-2
#[tokio::test]
async fn the_time_that_a_gate_is_closed_does_not_age_a_run_if_the_gate_says_so() {
    let ms = Duration::from_millis;
    let policy = PolicySpec { max_age: Some(ms(900)), ..at_once() };
    let (aging, paused) = tokio::join!(
        attempts_under(policy.clone(), limits(None, None)),
        attempts_under(policy, limits(None, None).with_paused_max_age(true)),
    );
    let outcomes = |attempts: &[AttemptRecord]| -> Vec<AttemptOutcome> {
        attempts.iter().map(|attempt| attempt.outcome).collect()
    };
    use AttemptOutcome::{Failed, Retrying, Success};
    assert_eq!(outcomes(&aging), [Retrying, Failed], "the run is too old after the closing");
    assert_eq!(outcomes(&paused), [Retrying, Retrying, Success]);
}

// GAT-4
#[tokio::test]
async fn a_run_that_fails_as_a_probe_is_not_counted() {
    let policy = PolicySpec { max_attempts: Some(2), ..at_once() };
    let attempts = attempts_under(policy, limits(None, None)).await;
    let counted: Vec<bool> = attempts.iter().map(|attempt| attempt.counted).collect();
    assert_eq!(counted, [false, false, true], "the hint, the probe, and the success");
}

// GAT-5
#[tokio::test]
async fn no_more_run_at_once_on_all_hosts_than_the_gate_allows() {
    let store = store_with(120).await;
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let handler = handler_fn({
        let most = most.clone();
        move |_: Call| {
            let (running, most) = (running.clone(), most.clone());
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                running.fetch_sub(1, Ordering::SeqCst);
                answered()
            }
        }
    });
    drain(&store, limits(Some(3), None), handler).await;
    assert!(most.load(Ordering::SeqCst) <= 3, "{most:?}");
    assert_eq!(attempts(&store).await, vec![1; 120]);
}

// GAT-5
#[tokio::test]
async fn no_second_has_more_starts_on_all_hosts_than_the_rate() {
    let store = store_with(150).await;
    let starts: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let handler = handler_fn({
        let starts = starts.clone();
        move |_: Call| {
            starts.lock().unwrap().push(Instant::now());
            async { answered() }
        }
    });
    drain(&store, limits(None, Some("100/s")), handler).await;
    assert_eq!(attempts(&store).await, vec![1; 150]);
    let mut starts = starts.lock().unwrap().clone();
    starts.sort_unstable();
    for (first, from) in starts.iter().enumerate() {
        let until = *from + Duration::from_secs(1);
        let within = starts[first..].iter().take_while(|at| **at < until).count();
        assert!(within <= 100, "{within} starts within a second");
    }
}

// GAT-2: an order, and a queue that does not name the gate.
#[tokio::test]
async fn a_gate_that_is_closed_by_command_keeps_only_its_own_queues_back() {
    let store = store_with(3).await;
    let now = SystemClock.now();
    store.submit_runs(&[NewRun::new("free", &json!(1), now).unwrap()], now).await.unwrap();
    let gate = GateRule { name: "api".to_owned(), is_keyed: false, settings: limits(None, None) };
    let handler = handler_fn(|_: Call| async { answered() });
    let engine = Engine::new(store.clone())
        .with_queue(Queue::new("jobs", handler.clone()).with_gates(vec![gate]))
        .with_queue(Queue::new("free", handler));
    let (stopper, stop) = Stopper::new();
    let place =
        redrive_store::GatePlace { kind: redrive_store::UnitKind::Run, place: "jobs".to_owned() };
    let declared = redrive_store::DeclaredGate {
        name: "api".to_owned(),
        places: vec![place],
        ..redrive_store::DeclaredGate::default()
    };
    store.declare_gates(&vec![declared].into(), now).await.unwrap();
    let by = redrive_store::Operator { actor: "ann".to_owned(), at: now, reason: None };
    let close = redrive_store::GateOrder::Close { until: None };
    store.order_gate("api", "", &close, &by).await.unwrap();
    let running = tokio::spawn(async move { engine.run(stop, Until::Stopped).await });
    let free = async {
        loop {
            let left = store.backlog("free", &Categories::All).await.unwrap();
            if !left.ready && !left.held {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    soon(free).await;
    assert_eq!(store.waiting_behind("api", "").await.unwrap(), 3);
    store.order_gate("api", "", &redrive_store::GateOrder::Open, &by).await.unwrap();
    let jobs = async {
        while store.waiting_behind("api", "").await.unwrap() > 0
            || store.backlog("jobs", &Categories::All).await.unwrap().held
        {
            tokio::task::yield_now().await;
        }
    };
    soon(jobs).await;
    stopper.stop();
    soon(running).await.unwrap().unwrap();
}

/// Attempts that end at once, before those that last.
const QUICK: i64 = 1_000;

/// A host of one queue behind a gate, with all slots busy after quick attempts.
struct BusyHost {
    store: Arc<dyn Store>,
    stopper: Stopper,
    running: tokio::task::JoinHandle<()>,
    ends: watch::Sender<bool>,
}

impl BusyHost {
    async fn begin() -> Self {
        let store = store_with(2 * QUICK as u32).await;
        let (ends, started) = (watch::Sender::new(false), Arc::new(AtomicUsize::new(0)));
        let handler = handler_fn({
            let (ends, started) = (ends.clone(), started.clone());
            move |_: Call| {
                let lasts = started.fetch_add(1, Ordering::SeqCst) >= QUICK as usize;
                let mut ends = ends.subscribe();
                async move {
                    if lasts {
                        ends.wait_for(|ends| *ends).await.unwrap();
                    }
                    answered()
                }
            }
        });
        let engine = Engine::new(store.clone()).with_queue(queue(handler));
        let (stopper, stop) = Stopper::new();
        let running = tokio::spawn(async move { engine.run(stop, Until::Stopped).await.unwrap() });
        let host = Self { store, stopper, running, ends };
        soon(host.until_held(|held| held > CONCURRENCY)).await;
        host
    }

    /// Waits until the host holds so many of the runs that last.
    async fn until_held(&self, is_enough: impl Fn(usize) -> bool) {
        let (quick, limit) = (redrive_core::RunId(QUICK), PageLimit::without_data(1_000));
        loop {
            let runs = self.store.runs_page(&Selection::default(), quick, limit).await.unwrap();
            if is_enough(runs.iter().filter(|run| run.lease_owner.is_some()).count()) {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    async fn close(&self, until: Option<Timestamp>) {
        let by = Operator { actor: "ann".to_owned(), at: SystemClock.now(), reason: None };
        let close = GateOrder::Close { until };
        self.store.order_gate("api", "", &close, &by).await.unwrap();
        soon(self.until_held(|held| held == CONCURRENCY)).await;
    }

    async fn end(self) {
        self.stopper.stop();
        self.ends.send_replace(true);
        soon(self.running).await.unwrap();
    }
}

fn queue(handler: Arc<dyn Handler>) -> Queue {
    let gate = GateRule { name: "api".to_owned(), is_keyed: false, settings: limits(None, None) };
    Queue::new("jobs", handler).with_concurrency(CONCURRENCY).with_gates(vec![gate])
}

// GAT-3
#[tokio::test]
async fn a_host_whose_slots_are_busy_releases_what_it_claimed_ahead_when_the_gate_closes() {
    let host = BusyHost::begin().await;
    host.close(None).await;
    host.end().await;
}

// GAT-4
#[tokio::test]
async fn a_host_whose_slots_are_busy_leaves_the_probe_to_another() {
    let host = BusyHost::begin().await;
    // It learns of the closing before the period is over.
    host.close(Some(SystemClock.now() + Duration::from_secs(3))).await;
    let (started, mut starts) = mpsc::unbounded_channel();
    let probe = handler_fn(move |_: Call| {
        _ = started.send(());
        async { answered() }
    });
    let (stopper, stop) = Stopper::new();
    let idle = Engine::new(host.store.clone()).with_queue(queue(probe));
    let running = tokio::spawn(async move { idle.run(stop, Until::Stopped).await.unwrap() });
    soon(starts.recv()).await.unwrap();
    stopper.stop();
    soon(running).await.unwrap();
    host.end().await;
}

// GAT-5, PAR-10
#[tokio::test]
async fn neither_lane_starves_behind_a_gate_that_lets_few_through() {
    let (store, folder) = (store_with(0).await, tempfile::tempdir().unwrap());
    for (customer, lane) in [("old", Lane::Backfill), ("new", Lane::Fresh)] {
        let day = |n: u32| format!("ads/{customer}/daily/2026-{:02}-{:02}", 1 + n / 28, 1 + n % 28);
        let days: Vec<NamedPartition> = (0..100)
            .map(|n| NamedPartition::from(day(n).parse::<PartitionKey>().unwrap()))
            .collect();
        let by = Operator { actor: "ann".to_owned(), at: SystemClock.now(), reason: None };
        let audit = AuditContext { by, command: "test".to_owned(), filter: None, flags: vec![] };
        let action = PartitionAction::Backfill { force_pending: false, lane };
        store.change_partitions(&action, &days, &audit).await.unwrap();
    }
    let customers: Arc<Mutex<Vec<String>>> = Arc::default();
    let extractor = extractor_fn({
        let customers = customers.clone();
        move |call: Call, _: RowWriter| {
            let customer = call.details["customer_id"].as_str().unwrap_or_default().to_owned();
            customers.lock().unwrap().push(customer);
            async { answered() }
        }
    });
    let settings = limits(Some(1), None);
    let gate = GateRule { name: "api".to_owned(), is_keyed: false, settings };
    let source = Source::new("ads", extractor, RawSink::folder(folder.path()));
    let engine = Engine::new(store).with_source(source.with_gates(vec![gate]));
    let (_stopper, stop) = Stopper::new();
    soon(engine.run(stop, Until::Drained)).await.unwrap();
    let customers = customers.lock().unwrap();
    let old = customers[..100].iter().filter(|customer| *customer == "old").count();
    assert_eq!(customers.len(), 200);
    assert!((29..=31).contains(&old), "three of ten are backfill: {old} of 100");
}
