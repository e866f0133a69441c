//! What comes next for a failed partition.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use redrive_core::{
    FailedPartition, GiveUpReason, JitterKey, JitterSeed, Policy, PolicySpec, Preset, Retriable,
    RetryForecast, TerminalReason, Unit, schedule,
};

const SINCE: Timestamp = Timestamp::UNIX_EPOCH;

fn unit() -> Unit {
    "partition:ads/7/daily/2026-03-01".parse().unwrap()
}

fn jitter() -> JitterKey {
    JitterKey::new(JitterSeed::default(), &unit())
}

fn failed(attempt_count: u32) -> FailedPartition<'static> {
    FailedPartition {
        attempt_count,
        error_message: Some("no rows"),
        updated_at: SINCE,
        first_attempt_at: Some(SINCE),
        logical_date: "1970-01-01".parse().unwrap(),
        asked: None,
        failure: None,
    }
}

fn policy(change: fn(&mut PolicySpec)) -> Policy {
    let mut spec = Preset::Partition.spec();
    change(&mut spec);
    Policy::new(spec).unwrap()
}

fn after(seconds: i64) -> Timestamp {
    SINCE + SignedDuration::from_secs(seconds)
}

fn terminal(reason: TerminalReason) -> RetryForecast {
    RetryForecast::Terminal { reason }
}

// DMN-1, POL-6
#[test]
fn the_waits_are_those_of_the_printed_schedule() {
    let policy = Preset::Partition.policy();
    let printed = schedule(&policy, jitter(), 12);
    for (n, row) in (1..).zip(printed) {
        let RetryForecast::RetryAt { at, delay } =
            RetryForecast::of(failed(n), &policy, SINCE, jitter())
        else {
            panic!("attempt {n} is not retried");
        };
        assert_eq!(delay, row.delay, "attempt {n}");
        assert_eq!(at, SINCE + SignedDuration::try_from(delay).unwrap());
    }
}

// DMN-1, POL-4
#[test]
fn asking_later_does_not_move_the_time() {
    let policy = Preset::Partition.policy();
    let first = RetryForecast::of(failed(2), &policy, SINCE, jitter());
    let RetryForecast::RetryAt { at, .. } = first else { panic!("it is retried") };
    for now in [after(1), after(500), after(700), after(1_000_000)] {
        let asked = RetryForecast::of(failed(2), &policy, now, jitter());
        assert_eq!(asked, first);
        assert_eq!(asked.is_due(now), now >= at);
    }
    assert!(first.is_due(at), "due from that very moment on");
}

// POL-7, DMN-1
#[test]
fn no_retry_comes_before_the_time_that_the_server_asked_for() {
    let policy = policy(|spec| spec.max_hint = Duration::from_hours(3));
    let wait = |n: u32, asked: Option<u64>| {
        let asked = asked.map(Duration::from_secs);
        match RetryForecast::of(FailedPartition { asked, ..failed(n) }, &policy, SINCE, jitter()) {
            RetryForecast::RetryAt { at, delay } => {
                assert_eq!(at, SINCE + SignedDuration::try_from(delay).unwrap());
                delay
            }
            RetryForecast::Terminal { .. } => panic!("it is retried"),
        }
    };
    assert_eq!(wait(1, Some(7_200)), Duration::from_hours(2));
    assert_eq!(wait(1, Some(86_400)), Duration::from_hours(3), "at most max-hint");
    assert_eq!(wait(9, Some(60)), wait(9, None), "the backoff is longer");
}

// PAR-7
#[test]
fn a_mark_beats_everything() {
    let marked = FailedPartition { error_message: Some("[terminal] no rows"), ..failed(1) };
    let policy = policy(|spec| spec.max_attempts = Some(1));
    let forecast = RetryForecast::of(marked, &policy, SINCE, jitter());
    assert_eq!(forecast, terminal(TerminalReason::Marked));
    assert!(!forecast.is_due(Timestamp::MAX));
    let foreign = FailedPartition { error_message: Some("(terminal) no rows"), ..failed(1) };
    let policy = Preset::Partition.policy();
    assert!(matches!(
        RetryForecast::of(foreign, &policy, SINCE, jitter()),
        RetryForecast::RetryAt { .. }
    ));
}

// PAR-7
#[test]
fn a_partition_is_terminal_at_its_limits_and_not_before() {
    let exhausted = terminal(TerminalReason::Policy(GiveUpReason::AttemptsExhausted));
    let attempts = policy(|spec| spec.max_attempts = Some(3));
    assert!(matches!(
        RetryForecast::of(failed(2), &attempts, SINCE, jitter()),
        RetryForecast::RetryAt { .. }
    ));
    for count in [3, 4, u32::MAX] {
        assert_eq!(RetryForecast::of(failed(count), &attempts, SINCE, jitter()), exhausted);
    }

    let age = policy(|spec| spec.max_age = Some(Duration::from_secs(100)));
    let too_old = terminal(TerminalReason::Policy(GiveUpReason::TooOld));
    assert!(matches!(
        RetryForecast::of(failed(1), &age, after(99), jitter()),
        RetryForecast::RetryAt { .. }
    ));
    assert_eq!(RetryForecast::of(failed(1), &age, after(100), jitter()), too_old);
    let unknown = FailedPartition { first_attempt_at: None, ..failed(1) };
    let asked = RetryForecast::of(unknown, &age, Timestamp::MAX, jitter());
    assert!(matches!(asked, RetryForecast::RetryAt { .. }), "nothing is known of its age");
}

// PAR-7
#[test]
fn a_partition_whose_day_is_too_long_ago_is_terminal() {
    let policy = policy(|spec| spec.max_logical_age = Some(Duration::from_secs(86_400)));
    let too_old = terminal(TerminalReason::Policy(GiveUpReason::TooOld));
    let never_tried = FailedPartition { first_attempt_at: None, ..failed(1) };
    assert!(matches!(
        RetryForecast::of(never_tried, &policy, after(86_399), jitter()),
        RetryForecast::RetryAt { .. }
    ));
    assert_eq!(RetryForecast::of(never_tried, &policy, after(86_400), jitter()), too_old);
}

// DMN-1
#[test]
fn which_failures_are_retried_is_not_the_policys_to_say() {
    let none = policy(|spec| spec.retriable = Retriable::None);
    let preset = Preset::Partition.policy();
    let asked = RetryForecast::of(failed(4), &none, SINCE, jitter());
    assert_eq!(asked, RetryForecast::of(failed(4), &preset, SINCE, jitter()));
}

// POL-5
#[test]
fn nothing_overflows() {
    let policy = Preset::Partition.policy();
    for count in [0, 1, u32::MAX] {
        for updated_at in [Timestamp::MIN, Timestamp::MAX] {
            let extreme = FailedPartition { updated_at, ..failed(count) };
            let RetryForecast::RetryAt { at, delay } =
                RetryForecast::of(extreme, &policy, Timestamp::MAX, jitter())
            else {
                panic!("no limit is set");
            };
            assert!(at >= updated_at && delay <= Duration::from_secs(6 * 3600 + 30));
        }
    }
}
