//! Operations that are tried again without a store, in virtual time.

use std::{
    cell::Cell,
    collections::VecDeque,
    error::Error,
    future::{Future, pending, ready},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU32, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use jiff::Timestamp;
use redrive_core::{
    Backoff, Class, Code, Failure, GiveUpReason, Jitter, JitterKey, JitterSeed, Policy, PolicySpec,
    Preset, Retriable, schedule,
};
use redrive_retry::{Clock, Ended, GaveUp, Stopper, retry};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout},
};

const SECOND: Duration = Duration::from_secs(1);

/// One second, then one second again, without jitter.
fn steady(max_attempts: u32) -> PolicySpec {
    PolicySpec {
        max_attempts: Some(max_attempts),
        backoff: Backoff::Fixed,
        base: SECOND,
        jitter: Jitter::None,
        ..PolicySpec::default()
    }
}

fn policy(spec: PolicySpec) -> Policy {
    Policy::new(spec).unwrap()
}

fn busy() -> Failure {
    Failure::http(503, None, "busy")
}

fn wait_for(seconds: u64) -> Failure {
    Failure::http(429, Some(Duration::from_secs(seconds)), "slow down")
}

/// Fails as told, then succeeds; and how long after the start each attempt began.
struct Script {
    start: Instant,
    failures: VecDeque<Failure>,
    begun: Vec<Duration>,
}

impl Script {
    fn new(failures: impl IntoIterator<Item = Failure>) -> Self {
        let failures = failures.into_iter().collect();
        Self { start: Instant::now(), failures, begun: Vec::new() }
    }

    fn next(&mut self) -> impl Future<Output = Result<usize, Failure>> + use<> {
        self.begun.push(self.start.elapsed());
        ready(self.failures.pop_front().map_or(Ok(self.begun.len()), Err))
    }

    fn seconds(&self) -> Vec<u64> {
        self.begun.iter().map(Duration::as_secs).collect()
    }
}

async fn ended(spec: PolicySpec, failures: &[Failure]) -> (GaveUp<Failure>, Vec<u64>) {
    let mut script = Script::new(failures.iter().cloned());
    let ended = retry(&policy(spec), || script.next()).explained().await.unwrap_err();
    (ended, script.seconds())
}

// POL-2, POL-3, POL-6, POL-9
#[tokio::test(start_paused = true)]
async fn the_waits_are_those_that_the_schedule_prints() {
    let cases = [Preset::Run, Preset::Upload, Preset::Stage, Preset::Partition].map(Preset::spec);
    for spec in cases {
        let policy = policy(PolicySpec { max_attempts: Some(7), ..spec });
        let printed: Vec<Duration> =
            schedule(&policy, JitterKey::written(JitterSeed(3), "run:7"), 6)
                .map(|row| row.delay)
                .collect();

        let mut script = Script::new(vec![busy(); 6]);
        let mut waits = Vec::new();
        let answer = retry(&policy, || script.next())
            .unit("run:7")
            .jitter_seed(JitterSeed(3))
            .on_retry(|event| waits.push(event.delay))
            .await;
        assert_eq!(answer, Ok(7));
        assert_eq!(waits, printed);

        let mut sum = Duration::ZERO;
        for (n, wait) in printed.iter().enumerate() {
            sum += *wait;
            let late = script.begun[n + 1].checked_sub(sum).expect("it waits as long as it must");
            assert!(late < Duration::from_millis(10), "tokio counts in milliseconds: {late:?}");
        }
    }
}

// POL-4
#[tokio::test(start_paused = true)]
async fn jitter_belongs_to_the_name_and_each_nameless_call_has_its_own() {
    async fn first_wait(unit: Option<&str>, seed: u64) -> Duration {
        let (policy, mut script) = (Preset::Stage.policy(), Script::new([busy()]));
        let wait = Cell::new(Duration::ZERO);
        let call = retry(&policy, || script.next())
            .jitter_seed(JitterSeed(seed))
            .on_retry(|event| wait.set(event.delay));
        match unit {
            Some(unit) => call.unit(unit).await.unwrap(),
            None => call.await.unwrap(),
        };
        wait.get()
    }
    let named = first_wait(Some("invoice 7"), 0).await;
    assert_eq!(named, first_wait(Some("invoice 7"), 0).await);
    assert_ne!(named, first_wait(Some("invoice 8"), 0).await);
    assert_ne!(named, first_wait(Some("invoice 7"), 1).await);
    assert_ne!(first_wait(None, 0).await, first_wait(None, 0).await);
}

// POL-7
#[tokio::test(start_paused = true)]
async fn a_hint_is_waited_for_and_not_counted() {
    let (policy, mut script) =
        (policy(steady(2)), Script::new([wait_for(30), wait_for(40), busy(), busy()]));
    let mut told = Vec::new();
    let answer = retry(&policy, || script.next())
        .on_retry(|event| told.push((event.attempt, event.delay.as_secs(), event.counted)))
        .explained()
        .await;
    assert_eq!(answer.unwrap_err().ended, Ended::GaveUp(GiveUpReason::AttemptsExhausted));
    assert_eq!(told, [(1, 30, false), (2, 40, false), (3, 1, true)]);
    assert_eq!(script.seconds(), [0, 30, 70, 71], "the fourth is the second that counts");
}

// POL-1, POL-7
#[tokio::test(start_paused = true)]
async fn hints_are_bounded_in_length_and_in_number() {
    let spec = PolicySpec { max_hint: 5 * SECOND, max_deferrals: 2, ..steady(3) };
    let (gave_up, seconds) = ended(spec, &vec![wait_for(3_600); 9]).await;
    assert_eq!(gave_up.ended, Ended::GaveUp(GiveUpReason::AttemptsExhausted));
    assert_eq!(seconds, [0, 5, 10, 15, 20], "two are free, the rest is counted");
}

// POL-6, CLS-5
#[tokio::test(start_paused = true)]
async fn it_says_why_it_gave_up_and_after_how_many_attempts() {
    let gone = Failure::http(410, None, "gone");
    let stated = Failure::from(Class::Final);
    let only_429 = Retriable::Codes(vec![Code::Number(429)]);
    let all = |spec| PolicySpec { retriable: Retriable::All, ..spec };
    let cases = [
        (steady(3), vec![busy(); 3], GiveUpReason::AttemptsExhausted, 3),
        (steady(1), vec![wait_for(1)], GiveUpReason::AttemptsExhausted, 1),
        (steady(3), vec![busy(), gone.clone()], GiveUpReason::Final, 2),
        (all(steady(3)), vec![gone.clone(), stated], GiveUpReason::Final, 2),
        (all(steady(3)), vec![gone; 3], GiveUpReason::AttemptsExhausted, 3),
        (
            PolicySpec { retriable: only_429, ..steady(3) },
            vec![busy()],
            GiveUpReason::NotRetriable,
            1,
        ),
        (
            PolicySpec { max_age: Some(2 * SECOND), ..steady(9) },
            vec![busy(); 9],
            GiveUpReason::TooOld,
            3,
        ),
    ];
    for (spec, failures, reason, attempts) in cases {
        let (gave_up, seconds) = ended(spec, &failures).await;
        assert_eq!((gave_up.ended, gave_up.attempts), (Ended::GaveUp(reason), attempts));
        assert_eq!(seconds.len(), attempts as usize, "no attempt is made for nothing");
        assert_eq!(gave_up.error, failures[attempts as usize - 1], "the last error");
    }
}

/// Shows the time that a test sets.
#[derive(Default)]
struct ManualClock {
    seconds: AtomicI64,
    reads: AtomicU32,
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.reads.fetch_add(1, Ordering::SeqCst);
        Timestamp::from_second(self.seconds.load(Ordering::SeqCst)).unwrap()
    }
}

// POL-1, OPS-5
#[tokio::test(start_paused = true)]
async fn age_counts_from_the_first_attempt_on_the_clock_that_was_given() {
    let policy = policy(PolicySpec { max_age: Some(100 * SECOND), ..steady(99) });
    let clock = ManualClock::default();
    let mut attempts = 0;
    let gave_up = retry(&policy, || {
        attempts += 1;
        clock.seconds.fetch_add(40, Ordering::SeqCst);
        ready(Err::<(), _>(busy()))
    })
    .clock(&clock)
    .explained()
    .await
    .unwrap_err();
    assert_eq!(gave_up.ended, Ended::GaveUp(GiveUpReason::TooOld));
    assert_eq!(attempts, 3, "40 s, 80 s, 120 s");
}

#[tokio::test(start_paused = true)]
async fn an_immediate_success_reads_no_clock_unless_age_matters() {
    for (max_age, reads) in [(None, 0), (Some(SECOND), 1)] {
        let policy = policy(PolicySpec { max_age, ..steady(3) });
        let clock = ManualClock::default();
        let answer = retry(&policy, || ready(Ok::<_, Failure>(1))).clock(&clock).await;
        assert_eq!((answer, clock.reads.load(Ordering::SeqCst)), (Ok(1), reads));
    }
}

// CLS-5
#[tokio::test(start_paused = true)]
async fn errors_of_others_are_classified_by_who_calls() {
    #[derive(Debug, PartialEq)]
    struct Foreign(u32);

    let policy = policy(steady(3));
    for (error, attempts) in [(Foreign(0), 1), (Foreign(1), 3)] {
        let mut made = 0;
        let answer = retry(&policy, || {
            made += 1;
            ready(Err::<(), _>(Foreign(error.0)))
        })
        .when(|error| if error.0 == 0 { Class::Final } else { Class::Retryable })
        .await;
        assert_eq!((answer, made), (Err(error), attempts));
    }

    let mut made = 0;
    let answer = retry(&policy, || {
        made += 1;
        ready(Err::<(), _>("no idea"))
    })
    .any_error()
    .explained()
    .await
    .unwrap_err();
    assert_eq!((answer.failure.message().as_str(), made), ("no idea", 3));
}

// OPS-6
#[tokio::test(start_paused = true)]
async fn told_to_stop_it_waits_no_longer_and_tries_no_more() {
    let (stopper, stop) = Stopper::new();
    let (policy, mut script) = (policy(steady(9)), Script::new(vec![busy(); 9]));
    let start = Instant::now();
    let told = timeout(2 * SECOND + SECOND / 2, pending::<()>());
    let call = retry(&policy, || script.next()).stop(stop.clone()).explained();
    let (answer, _) = tokio::join!(call, async {
        let _ = told.await;
        stopper.stop();
    });
    let gave_up = answer.unwrap_err();
    assert_eq!((gave_up.ended, gave_up.attempts), (Ended::Stopped, 3));
    assert_eq!(gave_up.error, busy());
    assert!(start.elapsed() < 3 * SECOND, "the wait was cut short");

    let mut waits = 0;
    let mut script = Script::new(vec![busy(); 9]);
    let call = retry(&policy, || script.next()).stop(stop).on_retry(|_| waits += 1);
    assert_eq!(call.explained().await.unwrap_err().ended, Ended::Stopped);
    assert_eq!((script.begun.len(), waits), (1, 0), "told before: one attempt, no wait");
}

// OPS-6
#[tokio::test(start_paused = true)]
async fn an_attempt_that_runs_is_left_to_end_when_told_to_stop() {
    let (stopper, stop) = Stopper::new();
    let (answer, answered) = oneshot::channel();
    let policy = policy(steady(3));
    let mut answered = Some(answered);
    let call = retry(&policy, || {
        let answered = answered.take().unwrap();
        async { answered.await.map_err(|_| busy()) }
    })
    .stop(stop);
    let (got, ()) = tokio::join!(call, async {
        stopper.stop();
        tokio::task::yield_now().await;
        answer.send(7).unwrap();
    });
    assert_eq!(got, Ok(7));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_future_ends_the_attempt_or_the_wait() {
    struct Running(Arc<AtomicU32>);
    impl Drop for Running {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    let (running, begun) = (Arc::new(AtomicU32::new(0)), AtomicU32::new(0));
    let policy = policy(steady(9));
    let attempt = || {
        let number = begun.fetch_add(1, Ordering::SeqCst);
        running.fetch_add(1, Ordering::SeqCst);
        let guard = Running(running.clone());
        async move {
            let _guard = guard;
            if number < 2 {
                return Err::<(), _>(busy());
            }
            pending().await
        }
    };
    // During the wait after the second attempt, and during the third attempt.
    for (seconds, attempts) in [(1_500, 2), (10_000, 1)] {
        let before = begun.load(Ordering::SeqCst);
        let call = retry(&policy, attempt).any_error();
        timeout(Duration::from_millis(seconds), call).await.unwrap_err();
        timeout(100 * SECOND, pending::<()>()).await.unwrap_err();
        assert_eq!(begun.load(Ordering::SeqCst) - before, attempts);
        assert_eq!(running.load(Ordering::SeqCst), 0, "nothing is left running");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_holds_nothing_of_the_attempt_before() {
    let held = Arc::new(());
    let policy = policy(steady(2));
    let mut waited = false;
    let answer = retry(&policy, || {
        let mine = held.clone();
        async move {
            let _mine = mine;
            Err::<(), _>(busy())
        }
    })
    .sleep(|_| {
        waited = true;
        let held = &held;
        async move {
            tokio::task::yield_now().await;
            assert_eq!(Arc::strong_count(held), 1);
        }
    })
    .await;
    assert_eq!(answer, Err(busy()));
    assert!(waited);
}

// OPS-5
#[test]
fn with_a_sleep_of_ones_own_no_runtime_is_needed() {
    let policy = policy(steady(3));
    let (mut attempts, mut slept) = (0, Vec::new());
    let call = retry(&policy, || {
        attempts += 1;
        ready(if attempts < 3 { Err(busy()) } else { Ok(attempts) })
    })
    .sleep(|delay| {
        slept.push(delay);
        ready(())
    });
    let polled = pin!(call).poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(polled, Poll::Ready(Ok(3)));
    assert_eq!(slept, [SECOND, SECOND]);
}

#[tokio::test(start_paused = true)]
async fn it_can_be_spawned_and_its_end_reads_well() {
    let task = tokio::spawn(async {
        let policy = policy(steady(2));
        retry(&policy, || async { Err::<(), _>(busy()) }).on_retry(|_| ()).explained().await
    });
    let gave_up = task.await.unwrap().unwrap_err();
    assert_eq!(gave_up.to_string(), "no success in 2 attempts: attempts_exhausted");
    assert_eq!(gave_up.source().unwrap().to_string(), "503: busy");
}
