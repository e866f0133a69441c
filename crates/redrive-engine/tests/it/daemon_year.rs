//! A year of the daemon in virtual time: every retry comes when `policy schedule` says, and no tick does
//! what is not due.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use redrive_core::{
    Cause, Failure, JitterKey, JitterSeed, PartitionKey, Policy, PolicySpec, Preset, Unit, schedule,
};
use redrive_engine::{Clock, Control, Daemon, PartitionRules, RawSink, SteadyClock, Stopper};
use redrive_sqlite::{Location, SqliteOptions, SqliteStore, WriterMode};
use redrive_store::{
    Journal as _, JournalFilter, Lane, Operator, PartitionClaim, PartitionFinish, PartitionOrder,
    PartitionVerdict, PartitionWish, Partitions as _, WorkerId, Written,
};

const INTERVAL: Duration = Duration::from_secs(20 * 60);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// The data plane of this world: whatever is pending fails at once.
struct World {
    store: Arc<SqliteStore>,
    clock: Arc<SteadyClock>,
    runs: Mutex<u64>,
    /// When each partition failed, attempt by attempt, and when it was sent back.
    failures: Mutex<BTreeMap<PartitionKey, Vec<Timestamp>>>,
    retries: Mutex<BTreeMap<PartitionKey, Vec<Timestamp>>>,
}

impl World {
    fn new() -> Arc<Self> {
        // On the caller's thread: time stands still while the database works.
        let options = SqliteOptions { writer: WriterMode::Inline, ..SqliteOptions::default() };
        let clock = Arc::new(SteadyClock::default());
        let store = SqliteStore::open(Location::Memory, options, clock.now()).unwrap();
        Arc::new(Self {
            store: Arc::new(store),
            clock,
            runs: Mutex::default(),
            failures: Mutex::default(),
            retries: Mutex::default(),
        })
    }

    fn daemon(&self, policies: &[(&str, Policy)], name: &str) -> Daemon {
        let rules = PartitionRules::new(JitterSeed(42));
        let rules = policies
            .iter()
            .fold(rules, |rules, (source, policy)| rules.with_policy(*source, policy.clone()));
        let raw = RawSink::folder("never-looked-at");
        let control = Control::new(self.store.clone(), rules, raw);
        Daemon::new(control, name).with_clock(self.clock.clone())
    }

    async fn ask_for(&self, key: &str) -> PartitionKey {
        let key: PartitionKey = key.parse().unwrap();
        let by = Operator { actor: "ada".to_owned(), at: self.clock.now(), reason: None };
        let order =
            PartitionOrder { by, command: "test".to_owned(), filter: None, flags: Vec::new() };
        let wish = PartitionWish::Backfill { force_pending: false, lane: Lane::Fresh };
        self.store.change_partitions(&wish, &[key.clone().into()], &order).await.unwrap();
        key
    }

    /// Everything that was asked for fails, now.
    async fn fail_all(&self, source: &str) {
        let now = self.clock.now();
        let run_ids = {
            let mut runs = self.runs.lock().unwrap();
            (0..20)
                .map(|_| {
                    *runs += 1;
                    format!("r{runs}").parse().unwrap()
                })
                .collect()
        };
        let claim = PartitionClaim {
            source: source.to_owned(),
            run_ids,
            backfill: 10,
            owner: WorkerId("w".to_owned()),
            lease_until: now + SignedDuration::from_secs(60),
        };
        let claimed = self.store.claim_partitions(&claim).await.unwrap();
        for held in claimed {
            let failure = Failure::named("too_few_rows", Cause::Validator, "no rows");
            let finish = PartitionFinish {
                key: held.key.clone(),
                lease: held.lease,
                run_id: held.run_id,
                started_at: now,
                ended_at: now,
                worker: WorkerId("w".to_owned()),
                verdict: PartitionVerdict::Rejected { failure },
            };
            let written = self.store.finish_partitions(&[finish]).await.unwrap();
            assert_eq!(written, [Written::Applied]);
            if held.attempt.0 > 1 {
                let requested = held.request.requested_at;
                let mut retries = self.retries.lock().unwrap();
                retries.entry(held.key.clone()).or_default().push(requested);
            }
            self.failures.lock().unwrap().entry(held.key).or_default().push(now);
        }
    }
}

/// Each retry came at the first tick at which it was due: not before its wait was over, and less than an
/// interval after.
#[track_caller]
fn check_schedule(world: &World, key: &PartitionKey, policy: &Policy) -> usize {
    let (failures, retries) = (world.failures.lock().unwrap(), world.retries.lock().unwrap());
    let (failures, retries) = (&failures[key], &retries[key]);
    let jitter = JitterKey::new(JitterSeed(42), &Unit::Partition(key.clone()));
    let planned: Vec<Duration> =
        schedule(policy, jitter, retries.len() as u32).map(|wait| wait.delay).collect();
    for (n, ((failed, retried), delay)) in failures.iter().zip(retries).zip(&planned).enumerate() {
        let waited: Duration = retried.duration_since(*failed).try_into().unwrap();
        assert!(waited >= *delay, "{key}: retry {} after {waited:?}, not {delay:?}", n + 1);
        assert!(
            waited < *delay + INTERVAL,
            "{key}: retry {} came {waited:?} after its failure, a tick too late for {delay:?}",
            n + 1
        );
        let plain = policy.backoff_delay(n as u32 + 1);
        assert!(delay.abs_diff(plain) <= Duration::from_secs(30), "{key}: jitter of {}", n + 1);
    }
    retries.len()
}

// DMN-1, DMN-2, POL-4
#[tokio::test(start_paused = true)]
async fn a_year_of_retries_follows_the_schedule() {
    let world = World::new();
    let preset = Preset::Partition.policy();
    let few = Policy::new(PolicySpec { max_attempts: Some(7), ..preset.spec().clone() }).unwrap();
    let days = Duration::from_secs(30 * 24 * 3600);
    let young = Policy::new(PolicySpec { max_age: Some(days), ..preset.spec().clone() }).unwrap();
    let policies = [("few", few.clone()), ("young", young.clone())];
    let mut keys = Vec::new();
    for source in ["ads", "few", "young"] {
        for customer in 0..2 {
            keys.push(world.ask_for(&format!("{source}/{customer}/daily/2026-03-01")).await);
        }
    }
    let daemon = world.daemon(&policies, "daemon");
    let start = tokio::time::Instant::now();
    let mut every = tokio::time::interval(INTERVAL);
    let mut counted = 0;
    while start.elapsed() < YEAR {
        every.tick().await;
        for source in ["ads", "few", "young"] {
            world.fail_all(source).await;
        }
        counted += daemon.tick().await.unwrap().retried;
    }
    for (index, key) in keys.iter().enumerate() {
        let policy = match key.source() {
            "few" => &few,
            "young" => &young,
            _ => &preset,
        };
        let retries = check_schedule(&world, key, policy);
        match key.source() {
            "few" => assert_eq!(retries, 6, "seven attempts"),
            "young" => assert!((110..130).contains(&retries), "{index}: {retries}"),
            _ => assert!((1_350..1_470).contains(&retries), "{index}: {retries}"),
        }
    }
    // Every retry that a tick counted is one that happened; what was not due was left alone.
    let retried: usize = world.retries.lock().unwrap().values().map(Vec::len).sum();
    // What the last tick sent back has not failed again.
    assert!(counted as usize - retried <= keys.len(), "{counted} {retried}");
    let told = JournalFilter { unit: None, action: Some("partition.giveup".to_owned()) };
    let told = world.store.journal_page(&told, 0, 100).await.unwrap();
    assert_eq!(told.len(), 4, "each of those that a limit ended, once in a year of ticks");
}

// DMN-1, DMN-2
#[tokio::test(start_paused = true)]
async fn the_loop_ticks_at_every_interval_and_stops_at_once() {
    let world = World::new();
    let key = world.ask_for("ads/7/daily/2026-03-01").await;
    world.fail_all("ads").await;
    let daemon = Arc::new(world.daemon(&[], "daemon"));
    let (stopper, stop) = Stopper::new();
    let running = tokio::spawn({
        let daemon = daemon.clone();
        async move { daemon.run(Duration::from_secs(60), stop).await }
    });
    let start = tokio::time::Instant::now();
    loop {
        tokio::time::advance(Duration::from_secs(10)).await;
        tokio::task::yield_now().await;
        let found = world.store.partitions_by_key(std::slice::from_ref(&key)).await.unwrap();
        if found[0].as_ref().unwrap().status == redrive_core::PartitionStatus::Pending {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(400), "five minutes and some jitter");
    }
    assert!(start.elapsed() >= Duration::from_secs(270), "{:?}", start.elapsed());
    stopper.stop();
    running.await.unwrap();
}
