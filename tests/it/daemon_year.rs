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
use redrive_engine::{Clock, Control, Daemon, PartitionRules, RawSink};
use redrive_store::{
    AuditContext, BackfillShare, GateRules, JournalFilter, Lane, Operator, PartitionAction,
    PartitionClaim, PartitionFinish, PartitionVerdict, Store, WorkerId, Written,
};

use crate::{databases::fresh_postgres, folder::Folder};

const HOUR: Duration = Duration::from_secs(3_600);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);

/// A clock that moves when it is told to.
struct HandClock(Mutex<Timestamp>);

impl HandClock {
    fn advance(&self, time: Duration) {
        *self.0.lock().unwrap() += time;
    }
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

/// The data plane of this world: whatever is pending fails at once.
struct World {
    store: Arc<dyn Store>,
    clock: Arc<HandClock>,
    /// How often the daemon looks.
    interval: Duration,
    runs: Mutex<u64>,
    /// When each partition failed, attempt by attempt, and when it was sent back.
    failures: Mutex<BTreeMap<PartitionKey, Vec<Timestamp>>>,
    retries: Mutex<BTreeMap<PartitionKey, Vec<Timestamp>>>,
}

impl World {
    async fn new(url: &str, interval: Duration) -> Self {
        Folder::new().run(&["db", "migrate", "--store", url]).ok();
        Self {
            store: redrive::open(url).await.unwrap(),
            clock: Arc::new(HandClock(Mutex::new("2026-01-01T00:00:00Z".parse().unwrap()))),
            interval,
            runs: Mutex::default(),
            failures: Mutex::default(),
            retries: Mutex::default(),
        }
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
            AuditContext { by, command: "test".to_owned(), filter: None, flags: Vec::new() };
        let action = PartitionAction::Backfill { force_pending: false, lane: Lane::Fresh };
        self.store.change_partitions(&action, &[key.clone().into()], &order).await.unwrap();
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
            gates: GateRules::default(),
            now: Timestamp::UNIX_EPOCH,
            source: source.to_owned(),
            run_ids,
            backfill: BackfillShare { share: 0.0, owed: 10.0 },
            owner: WorkerId("w".to_owned()),
            lease_until: self.store.now() + SignedDuration::from_hours(1),
        };
        let claimed = self.store.claim_partitions(&claim).await.unwrap();
        for held in claimed {
            let failure = Failure::named("too_few_rows", Cause::Validator, "no rows");
            let finish = PartitionFinish {
                gates: None,
                key: held.key.clone(),
                lease: held.lease,
                attempt: held.attempt,
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
            waited < *delay + world.interval,
            "{key}: retry {} came {waited:?} after its failure, a tick too late for {delay:?}",
            n + 1
        );
        let plain = policy.backoff_delay(n as u32 + 1);
        assert!(delay.abs_diff(plain) <= Duration::from_secs(30), "{key}: jitter of {}", n + 1);
    }
    retries.len()
}

/// Returns when the year is over, and how many retries the ticks counted.
async fn live_a_year(world: &World, daemon: &Daemon, sources: &[&str]) -> u64 {
    let (mut lived, mut counted, mut pending) = (Duration::ZERO, 0, true);
    while lived < YEAR {
        // Most ticks send nothing back, and then there is nothing that could fail.
        if pending {
            for source in sources {
                world.fail_all(source).await;
            }
        }
        let retried = daemon.tick().await.unwrap().retried;
        pending = retried > 0;
        counted += retried;
        world.clock.advance(world.interval);
        lived += world.interval;
    }
    counted
}

async fn check_a_year(world: World) {
    let preset = Preset::Partition.policy();
    let few = Policy::new(PolicySpec { max_attempts: Some(7), ..preset.spec().clone() }).unwrap();
    let month = Duration::from_secs(30 * 24 * 3_600);
    let young = Policy::new(PolicySpec { max_age: Some(month), ..preset.spec().clone() }).unwrap();
    let policies = [("few", few.clone()), ("young", young.clone())];
    let sources = ["ads", "few", "young"];
    let mut keys = Vec::new();
    for source in sources {
        for customer in 0..2 {
            keys.push(world.ask_for(&format!("{source}/{customer}/daily/2026-03-01")).await);
        }
    }
    let daemon = world.daemon(&policies, "daemon");
    let counted = live_a_year(&world, &daemon, &sources).await;
    // Soon every wait is six hours and some jitter. Up to an interval goes by until a tick sees that it is
    // over, and one until the partition has failed again.
    let jitter = Duration::from_secs(30);
    let fewest =
        |time: Duration| time.div_duration_f64(6 * HOUR + jitter + 2 * world.interval) as usize;
    let most = |time: Duration| time.div_duration_f64(6 * HOUR - jitter) as usize + 10;
    for key in &keys {
        let (policy, time) = match key.source() {
            "few" => (&few, None),
            "young" => (&young, Some(month)),
            _ => (&preset, Some(YEAR)),
        };
        let retries = check_schedule(&world, key, policy);
        match time {
            None => assert_eq!(retries, 6, "seven attempts"),
            Some(time) => {
                assert!((fewest(time)..most(time)).contains(&retries), "{key}: {retries}");
            }
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

// DMN-1, DMN-2, POL-4
#[tokio::test]
async fn a_year_of_retries_follows_the_schedule_on_sqlite() {
    check_a_year(World::new("sqlite::memory:", HOUR / 3).await).await;
}

// DMN-1, DMN-2, POL-4
#[tokio::test]
async fn a_year_of_retries_follows_the_schedule_on_postgres() {
    // Fewer ticks: each of them asks another process.
    let url = tokio::task::spawn_blocking(fresh_postgres).await.unwrap();
    check_a_year(World::new(&url, HOUR).await).await;
}
