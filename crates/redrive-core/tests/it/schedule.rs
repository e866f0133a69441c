//! The waits a policy gives, before anything fails.

use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;
use redrive_core::{
    Decision, Failure, GiveUpReason, History, Policy, PolicySpec, Preset, Retriable, Scheduled,
    decide, schedule,
};

use crate::arbitrary::{jitter_of_run, policies};

fn rows(policy: &Policy, attempts: u32) -> Vec<Scheduled> {
    schedule(policy, jitter_of_run(7), attempts).collect()
}

/// Where a policy ends: the first attempt after which it gives up, and why.
fn end(policy: &Policy, attempts: u32) -> Option<(u32, GiveUpReason)> {
    let mut rows = schedule(policy, jitter_of_run(7), attempts);
    rows.find_map(|row| row.gives_up.map(|reason| (row.attempt, reason)))
}

// POL-8
#[test]
fn the_schedule_of_runs_doubles_from_a_minute_to_an_hour_and_ends_at_nine() {
    let rows = rows(&Preset::Run.policy(), 10);
    let seconds: Vec<u64> = rows.iter().map(|row| row.delay.as_secs()).collect();
    assert_eq!(seconds, [60, 120, 240, 480, 960, 1_920, 3_600, 3_600, 3_600, 3_600]);
    let attempts: Vec<u32> = rows.iter().map(|row| row.attempt).collect();
    assert_eq!(attempts, (1..=10).collect::<Vec<_>>());
    for row in rows {
        let expected = (row.attempt >= 9).then_some(GiveUpReason::AttemptsExhausted);
        assert_eq!(row.gives_up, expected, "attempt {}", row.attempt);
    }
}

// POL-8
#[test]
fn every_preset_ends_where_its_documentation_says() {
    let exhausted = |n| Some((n, GiveUpReason::AttemptsExhausted));
    assert_eq!(end(&Preset::Partition.policy(), 1_000), None);
    assert_eq!(end(&Preset::Run.policy(), 1_000), exhausted(9));
    assert_eq!(end(&Preset::Upload.policy(), 1_000), exhausted(5));
    assert_eq!(end(&Preset::Stage.policy(), 1_000), exhausted(3));
}

// POL-6
#[test]
fn the_age_of_a_schedule_is_the_sum_of_its_waits() {
    let policy = Policy::new(PolicySpec {
        max_attempts: None,
        max_age: Some(Duration::from_secs(60 + 120 + 240)),
        ..Preset::Run.spec()
    })
    .unwrap();
    assert_eq!(end(&policy, 10), Some((4, GiveUpReason::TooOld)));
}

#[test]
fn no_attempts_have_no_schedule() {
    assert_eq!(rows(&Preset::Run.policy(), 0), []);
}

#[test]
fn a_schedule_is_made_row_by_row() {
    let last = schedule(&Preset::Run.policy(), jitter_of_run(7), u32::MAX).take(3).last();
    assert_eq!(last.map(|row| row.attempt), Some(3));
}

proptest! {
    // POL-4, POL-6
    #[test]
    fn the_schedule_says_what_decide_will_say(policy in policies(), id in 1_i64..) {
        let jitter = jitter_of_run(id);
        let retrying = Policy::new(PolicySpec {
            retriable: Retriable::All,
            ..policy.spec().clone()
        })
        .unwrap();
        let start = Timestamp::UNIX_EPOCH;
        let (mut now, mut history) = (start, History::default());
        history.first_attempt_at = Some(start);
        for row in schedule(&policy, jitter, 8) {
            let failure = Failure::timeout("");
            let decision = decide(&retrying, &history, &failure, now, jitter);
            match decision {
                Decision::RetryAt { at, delay, counted } => {
                    prop_assert_eq!((row.gives_up, row.delay, counted), (None, delay, true));
                    now = at;
                }
                Decision::GiveUp { reason } => {
                    prop_assert_eq!(row.gives_up, Some(reason));
                    break;
                }
            }
            history = history.after(&failure, &decision);
        }
    }
}
