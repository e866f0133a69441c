//! The waits between attempts at a stage, as samples live through them, on a clock that the test moves.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use redrive::{
    Backoff, Code, Engine, Failure, IteratorSource, Jitter, Operator, Outcome, Pipeline, Policy,
    PolicySpec, Retriable, SampleId, SampleStatus, Stage, Stopper, Until, handler_fn,
};
use redrive_engine::{Call, Clock};
use redrive_postgres::{PostgresOptions, PostgresStore};
use redrive_sqlite::{Location, SqliteOptions, SqliteStore};
use redrive_store::{AttemptRecord, LedgerPlace, SampleRecord, Selection, Store, UnitKind};
use serde_json::json;

use super::mill::Mill;

/// As many as give a mean that can be relied on.
const SAMPLES: u64 = 400;

/// A clock that stands still until it is moved.
struct ManualClock(Mutex<Timestamp>);

impl ManualClock {
    fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new("2026-03-01T00:00:00Z".parse().unwrap())))
    }

    fn pass(&self, seconds: i64) {
        *self.0.lock().unwrap() += SignedDuration::from_secs(seconds);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

/// The store of a mill, as the library opens it.
async fn open(mill: &Mill) -> Arc<dyn Store> {
    let url = mill.shop.store();
    match url.strip_prefix("sqlite:") {
        Some(path) => {
            let location = Location::File(path.into());
            Arc::new(SqliteStore::open_existing(location, SqliteOptions::default()).unwrap())
        }
        None => Arc::new(PostgresStore::connect(url, PostgresOptions::default()).await.unwrap()),
    }
}

/// The policy of the seed's example, with as many attempts as show the cap.
fn policy(cap: u64, retriable: Retriable) -> Policy {
    Policy::new(PolicySpec {
        max_attempts: Some(5),
        backoff: Backoff::Exponential,
        base: Duration::from_secs(1),
        multiplier: 2.0,
        cap: Duration::from_secs(cap),
        jitter: Jitter::Fraction(0.25),
        retriable,
        ..redrive::Preset::Stage.policy().spec().clone()
    })
    .unwrap()
}

/// A pipeline of one stage that fails as the number of the sample has it.
fn failing(
    policy: Policy,
    samples: u64,
    failure: impl Fn(u64) -> Failure + Send + Sync + 'static,
) -> Pipeline {
    let handler = handler_fn(move |call: Call| {
        let failure = failure(call.details["data"]["n"].as_u64().unwrap());
        async move { Outcome::Failed(failure) }
    });
    let mut stage = Stage::new("call", handler).with_policy(policy).with_concurrency(64);
    stage.limits.poll = Duration::from_millis(10);
    let source = IteratorSource::new("numbers", move || (0..samples).map(|n| json!({ "n": n })));
    let budget = redrive::FailureBudget { rate: 1.0, ..redrive::FailureBudget::default() };
    let rules = redrive::PipelineRules { budget, ..redrive::PipelineRules::default() };
    Pipeline::new("calls", Arc::new(source)).with_stage(stage).with_rules(rules)
}

async fn samples(store: &dyn Store) -> Vec<SampleRecord> {
    store.samples_page(&Selection::default(), SampleId(0), 10_000.into()).await.unwrap()
}

async fn ledger(store: &dyn Store) -> Vec<AttemptRecord> {
    store.ledger_page(UnitKind::Sample, &LedgerPlace::start(), 10_000).await.unwrap()
}

/// Has an engine work on a run of the pipeline, on both stores, while something watches it.
fn on_both_stores(pipeline: &Pipeline, watch: impl AsyncFn(&dyn Store, &ManualClock)) {
    for mill in Mill::both(&[]) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let (store, clock) = (open(&mill).await, ManualClock::new());
            let by = Operator { actor: "test".to_owned(), at: clock.now(), reason: None };
            store.start_pipeline_run(&pipeline.new_run(), &by).await.unwrap();
            let engine = Engine::new(store.clone())
                .with_clock(clock.clone())
                .with_pipeline(pipeline.clone());
            let (stopper, stop) = Stopper::new();
            let watching = async {
                watch(&*store, &clock).await;
                stopper.stop();
            };
            let (ended, ()) = tokio::join!(engine.run(stop, Until::Stopped), watching);
            ended.unwrap();
        });
        mill.doctor();
    }
}

/// Waits until all samples are as they should be.
async fn all(
    store: &dyn Store,
    count: u64,
    fits: impl Fn(&SampleRecord) -> bool,
) -> Vec<SampleRecord> {
    loop {
        let samples = samples(store).await;
        if samples.len() as u64 == count && samples.iter().all(&fits) {
            return samples;
        }
        tokio::task::yield_now().await;
    }
}

// POL-2, POL-3, POL-4, PIP-3, PIP-4
#[test]
fn samples_wait_as_long_as_their_policy_says_spread_by_a_quarter_around_it() {
    let pipeline = failing(policy(3, Retriable::All), SAMPLES, |n| {
        Failure::http(503, None, &format!("sample {n} was refused"))
    });
    on_both_stores(&pipeline, async |store, clock| {
        for (attempt, base) in [(1, 1.0), (2, 2.0), (3, 3.0), (4, 3.0)] {
            let waiting = all(store, SAMPLES, |sample| {
                sample.attempts == attempt && sample.next_retry_at.is_some()
            })
            .await;
            let rows: Vec<AttemptRecord> = ledger(store).await;
            let rows: Vec<_> = rows.iter().filter(|row| row.attempt.0 == attempt).collect();
            assert_eq!(rows.len() as u64, SAMPLES);
            let mut delays = Vec::new();
            for (sample, row) in waiting.iter().zip(&rows) {
                let delay = row.delay.unwrap();
                assert_eq!((row.unit.id, row.outcome.name()), (sample.id.0, "retrying"));
                let at = row.ended_at + SignedDuration::try_from(delay).unwrap();
                assert_eq!(sample.next_retry_at, Some(at));
                delays.push(delay.as_secs_f64());
            }
            let (least, most) = (base * 0.75, base * 1.25);
            for delay in &delays {
                assert!((least..=most).contains(delay), "attempt {attempt}: {delay} s");
            }
            let mean = delays.iter().sum::<f64>() / delays.len() as f64;
            assert!((mean / base - 1.0).abs() <= 0.1, "attempt {attempt}: {mean} s on average");
            delays.sort_by(f64::total_cmp);
            let quarter = |n: usize| delays[delays.len() * n / 4];
            let spread = (quarter(3) - quarter(1)) / base;
            assert!(
                (0.15..=0.35).contains(&spread),
                "attempt {attempt}: half lies within {spread}"
            );
            clock.pass(4);
        }
        let dead = all(store, SAMPLES, |sample| sample.status == SampleStatus::Dlq).await;
        assert!(dead.iter().all(|sample| sample.attempts == 5 && sample.next_retry_at.is_none()));
        assert_eq!(ledger(store).await.len() as u64, 5 * SAMPLES);
    });
}

// CLS-5, PIP-3, PIP-4
#[test]
fn what_the_list_of_codes_names_is_tried_again_and_nothing_else() {
    // The seed's list, and what is not on it.
    let codes: [(&'static str, bool); 10] = [
        ("429", true),
        ("500", true),
        ("502", true),
        ("503", true),
        ("504", true),
        ("timeout", true),
        ("400", false),
        ("501", false),
        ("connection_refused", false),
        ("bad_reply", false),
    ];
    let code = |code: &'static str| match code.parse() {
        Ok(number) => Code::Number(number),
        Err(_) => Code::name(code),
    };
    let listed = codes.iter().filter(|(_, listed)| *listed).map(|(name, _)| code(name)).collect();
    let of = move |n: u64| codes[n as usize % codes.len()];
    let pipeline = failing(policy(30, Retriable::Codes(listed)), 50, move |n| {
        Failure::reported(None, code(of(n).0), "as it happens")
    });
    on_both_stores(&pipeline, async |store, clock| {
        let settled = |sample: &SampleRecord| sample.attempts == 1 && sample.lease_owner.is_none();
        for sample in all(store, 50, settled).await {
            let (code, listed) = of(sample.line - 1);
            assert_eq!(sample.error_code.as_deref(), Some(code));
            assert_eq!(sample.next_retry_at.is_some(), listed, "{code}");
            assert_eq!(sample.status == SampleStatus::Dlq, !listed, "{code}");
        }
        for attempts in 2..=5 {
            clock.pass(60);
            all(store, 50, |sample| {
                let expected = if of(sample.line - 1).1 { attempts } else { 1 };
                sample.attempts == expected && sample.lease_owner.is_none()
            })
            .await;
        }
        assert!(samples(store).await.iter().all(|sample| sample.status == SampleStatus::Dlq));
    });
}
