//! The one decision, case by case. The laws that hold for every case are in `decide_laws`.

use std::time::Duration;

use jiff::Timestamp;
use redrive_core::{
    Class, Code, Decision, Failure, GiveUpReason, History, Jitter, Policy, PolicySpec, Preset,
    Retriable, decide,
};

use crate::arbitrary::jitter_of_run;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// The preset `run` (60 s doubling up to an hour, no jitter, 9 attempts) with changes.
fn run_policy(change: impl FnOnce(&mut PolicySpec)) -> Policy {
    let mut spec = Preset::Run.spec();
    change(&mut spec);
    Policy::new(spec).unwrap()
}

fn counted(counted: u32) -> History {
    History { counted, ..History::default() }
}

fn busy() -> Failure {
    Failure::http(503, None, "busy")
}

fn told_to_wait(hint: Duration) -> Failure {
    Failure::http(429, Some(hint), "slow down")
}

fn judge(policy: &Policy, history: &History, failure: &Failure) -> Decision {
    decide(policy, history, failure, now(), jitter_of_run(7))
}

#[track_caller]
fn check_retry(
    policy: &Policy,
    history: &History,
    failure: &Failure,
    delay: Duration,
    counts: bool,
) {
    let expected = Decision::RetryAt { at: now() + delay, delay, counted: counts };
    assert_eq!(judge(policy, history, failure), expected);
}

#[track_caller]
fn check_give_up(policy: &Policy, history: &History, failure: &Failure, reason: GiveUpReason) {
    let decision = judge(policy, history, failure);
    assert_eq!(decision, Decision::GiveUp { reason });
}

// POL-6
#[test]
fn reasons_are_stored_under_their_names() {
    let reasons = [
        (GiveUpReason::Final, "final"),
        (GiveUpReason::NotRetriable, "not_retriable"),
        (GiveUpReason::AttemptsExhausted, "attempts_exhausted"),
        (GiveUpReason::TooOld, "too_old"),
    ];
    for (reason, name) in reasons {
        assert_eq!((reason.name(), reason.to_string().as_str()), (name, name));
    }
}

// POL-6
#[test]
fn when_several_reasons_hold_the_failure_goes_before_the_count_and_the_count_before_the_age() {
    let policy = |retriable| {
        run_policy(|spec| {
            spec.retriable = retriable;
            spec.max_age = Some(HOUR);
        })
    };
    let spent_and_old = History { first_attempt_at: Some(now() - HOUR), ..counted(8) };
    let fresh_and_old = History { counted: 0, ..spent_and_old };
    let gone = Failure::http(410, None, "gone");
    let listed = || Retriable::Codes(vec![Code::Number(408)]);
    let by_class = || Retriable::ByClass;
    check_give_up(&policy(by_class()), &spent_and_old, &gone, GiveUpReason::Final);
    check_give_up(&policy(listed()), &spent_and_old, &busy(), GiveUpReason::NotRetriable);
    check_give_up(&policy(by_class()), &spent_and_old, &busy(), GiveUpReason::AttemptsExhausted);
    check_give_up(&policy(by_class()), &fresh_and_old, &busy(), GiveUpReason::TooOld);
    check_retry(&policy(by_class()), &History::default(), &busy(), MINUTE, true);
}

// POL-2, POL-6
#[test]
fn a_unit_gives_up_when_its_backoff_number_reaches_max_attempts() {
    let limited = |max| run_policy(|spec| spec.max_attempts = max);
    let exhausted = GiveUpReason::AttemptsExhausted;
    check_retry(&limited(Some(3)), &counted(0), &busy(), MINUTE, true);
    check_retry(&limited(Some(3)), &counted(1), &busy(), 2 * MINUTE, true);
    check_give_up(&limited(Some(3)), &counted(2), &busy(), exhausted);
    check_give_up(&limited(Some(3)), &counted(3), &busy(), exhausted);
    check_give_up(&limited(Some(3)), &counted(u32::MAX), &busy(), exhausted);
    check_give_up(&limited(Some(1)), &counted(0), &busy(), exhausted);
    check_give_up(&limited(Some(u32::MAX)), &counted(u32::MAX), &busy(), exhausted);
    check_retry(&limited(None), &counted(u32::MAX), &busy(), HOUR, true);
}

// POL-2
#[test]
fn a_new_count_starts_again_at_the_base() {
    let policy = run_policy(|_| {});
    check_give_up(&policy, &counted(8), &busy(), GiveUpReason::AttemptsExhausted);
    check_retry(&policy, &History::default(), &busy(), MINUTE, true);
}

// POL-6
#[test]
fn a_unit_is_too_old_once_max_age_has_passed_since_its_first_attempt() {
    let policy = run_policy(|spec| spec.max_age = Some(HOUR));
    let first = |first_attempt_at| History {
        first_attempt_at: Some(first_attempt_at),
        ..History::default()
    };
    let almost = now() - HOUR + Duration::from_nanos(1);
    check_retry(&policy, &History::default(), &busy(), MINUTE, true);
    check_retry(&policy, &first(now()), &busy(), MINUTE, true);
    check_retry(&policy, &first(almost), &busy(), MINUTE, true);
    check_give_up(&policy, &first(now() - HOUR), &busy(), GiveUpReason::TooOld);
    check_give_up(&policy, &first(Timestamp::MIN), &busy(), GiveUpReason::TooOld);
    let patient = told_to_wait(SECOND);
    check_give_up(&policy, &first(now() - HOUR), &patient, GiveUpReason::TooOld);
}

// GAT-2
#[test]
fn time_that_a_gate_was_closed_makes_a_unit_no_older() {
    let policy = run_policy(|spec| spec.max_age = Some(HOUR));
    let waited =
        |paused| History { first_attempt_at: Some(now() - 2 * HOUR), paused, ..History::default() };
    check_give_up(&policy, &waited(HOUR), &busy(), GiveUpReason::TooOld);
    check_retry(&policy, &waited(HOUR + SECOND), &busy(), MINUTE, true);
    check_retry(&policy, &waited(Duration::MAX), &busy(), MINUTE, true);
}

// GAT-4
#[test]
fn a_probe_that_fails_is_not_counted_up_to_max_deferrals_in_a_row() {
    let policy = run_policy(|spec| spec.max_deferrals = 3);
    let probe = |deferrals| History { is_probe: true, deferrals, ..counted(1) };
    check_retry(&policy, &probe(2), &busy(), 2 * MINUTE, false);
    check_retry(&policy, &probe(3), &busy(), 2 * MINUTE, true);
    check_give_up(&policy, &probe(0), &Failure::http(404, None, ""), GiveUpReason::Final);
    let last = |deferrals| History { counted: 8, ..probe(deferrals) };
    check_retry(&policy, &last(2), &busy(), HOUR, false);
    check_give_up(&policy, &last(3), &busy(), GiveUpReason::AttemptsExhausted);
    let after = judge(&policy, &probe(2), &busy());
    assert_eq!(probe(2).after(&busy(), &after), History { deferrals: 3, ..counted(1) });
}

// POL-6
#[test]
fn a_first_attempt_in_the_future_is_not_old() {
    let policy = run_policy(|spec| spec.max_age = Some(SECOND));
    let jumped = History { first_attempt_at: Some(Timestamp::MAX), ..History::default() };
    check_retry(&policy, &jumped, &busy(), MINUTE, true);
}

// POL-7
#[test]
fn a_hint_is_obeyed_as_given_and_not_counted() {
    let policy = run_policy(|_| {});
    for hint in [SECOND, 90 * MINUTE, 24 * HOUR] {
        check_retry(&policy, &counted(0), &told_to_wait(hint), hint, false);
        check_retry(&policy, &counted(5), &told_to_wait(hint), hint, false);
    }
    let overloaded = Failure::http(503, Some(SECOND), "busy");
    check_retry(&policy, &counted(0), &overloaded, SECOND, false);
}

// POL-7
#[test]
fn a_hint_is_clamped_to_max_hint_and_not_to_the_cap() {
    let policy = run_policy(|spec| spec.max_hint = 2 * HOUR);
    assert_eq!(policy.spec().cap, HOUR);
    check_retry(&policy, &counted(0), &told_to_wait(2 * HOUR), 2 * HOUR, false);
    check_retry(&policy, &counted(0), &told_to_wait(3 * HOUR), 2 * HOUR, false);
    check_retry(&policy, &counted(0), &told_to_wait(Duration::MAX), 2 * HOUR, false);
}

// POL-7
#[test]
fn a_hint_is_not_jittered() {
    for jitter in [Jitter::Full, Jitter::Fraction(1.0), Jitter::Absolute(HOUR)] {
        let policy = run_policy(|spec| spec.jitter = jitter);
        for failures in 0..8 {
            let hint = told_to_wait(30 * SECOND);
            check_retry(&policy, &counted(failures), &hint, 30 * SECOND, false);
        }
    }
}

// POL-7
#[test]
fn a_rate_limit_without_a_hint_is_an_ordinary_counted_failure() {
    let policy = run_policy(|_| {});
    let limited = Failure::http(429, None, "slow down");
    check_retry(&policy, &counted(0), &limited, MINUTE, true);
    check_retry(&policy, &counted(3), &limited, 8 * MINUTE, true);
    check_give_up(&policy, &counted(8), &limited, GiveUpReason::AttemptsExhausted);
}

// POL-7
#[test]
fn a_spent_unit_gives_up_even_when_it_is_told_to_wait() {
    let policy = run_policy(|spec| spec.max_attempts = Some(3));
    let hint = told_to_wait(SECOND);
    check_retry(&policy, &counted(1), &hint, SECOND, false);
    check_give_up(&policy, &counted(2), &hint, GiveUpReason::AttemptsExhausted);
    let once = run_policy(|spec| spec.max_attempts = Some(1));
    check_give_up(&once, &counted(0), &hint, GiveUpReason::AttemptsExhausted);
}

/// Lets a unit fail in these ways, one after the other, and tells for each whether it counted, up
/// to the one it was given up for.
fn live(policy: &Policy, failures: impl Iterator<Item = Failure>) -> (Vec<bool>, History) {
    let (mut counts, mut history) = (Vec::new(), History::default());
    for failure in failures {
        let decision = judge(policy, &history, &failure);
        history = history.after(&failure, &decision);
        match decision {
            Decision::RetryAt { counted, .. } => counts.push(counted),
            Decision::GiveUp { .. } => break,
        }
    }
    (counts, history)
}

// POL-7
#[test]
fn after_a_hundred_deferrals_in_a_row_they_count_and_the_unit_ends() {
    let policy = run_policy(|spec| spec.max_attempts = Some(3));
    assert_eq!(policy.spec().max_deferrals, 100);
    let (counts, history) = live(&policy, std::iter::repeat_with(|| told_to_wait(SECOND)));
    let expected: Vec<bool> = (1..=102).map(|nth| nth > 100).collect();
    assert_eq!(counts, expected, "the 103rd execution was the third that counted");
    assert_eq!(history.counted, 3);
}

// POL-7
#[test]
fn a_deferral_that_counts_still_waits_for_its_hint() {
    let policy = run_policy(|spec| spec.max_deferrals = 2);
    let deferred = |deferrals| History { deferrals, ..History::default() };
    let hint = told_to_wait(SECOND);
    check_retry(&policy, &deferred(1), &hint, SECOND, false);
    check_retry(&policy, &deferred(2), &hint, SECOND, true);
    check_retry(&policy, &deferred(u32::MAX), &hint, SECOND, true);
}

// POL-7
#[test]
fn another_failure_in_between_begins_a_new_row_of_deferrals() {
    let policy = run_policy(|spec| spec.max_deferrals = 2);
    let hint = || told_to_wait(SECOND);
    let failures = [hint(), hint(), busy(), hint(), hint(), hint()];
    let (counts, history) = live(&policy, failures.into_iter());
    assert_eq!(counts, [false, false, true, false, false, true]);
    assert_eq!((history.counted, history.deferrals), (2, 3));
}

// POL-11
#[test]
fn lost_workers_have_a_budget_of_their_own() {
    let policy = run_policy(|spec| {
        spec.max_attempts = Some(3);
        spec.max_lost = Some(4);
    });
    let lost = || Failure::lost_worker("silent");
    let failures = [lost(), busy(), lost(), lost(), busy(), lost()];
    let (counts, history) = live(&policy, failures.into_iter());
    assert_eq!(counts, [false, true, false, false, true], "the fourth lost worker ends it");
    assert_eq!((history.counted, history.lost), (3, 3));
    check_retry(&policy, &History { lost: 2, ..counted(1) }, &lost(), 4 * MINUTE, false);
    check_retry(&policy, &History { lost: 9, ..counted(1) }, &busy(), 2 * MINUTE, true);
    check_give_up(&policy, &counted(2), &busy(), GiveUpReason::AttemptsExhausted);
}

// POL-11
#[test]
fn without_max_lost_a_lost_worker_counts_as_an_attempt() {
    let policy = run_policy(|spec| spec.max_attempts = Some(2));
    let lost = Failure::lost_worker("silent");
    check_retry(&policy, &History { lost: 9, ..counted(0) }, &lost, MINUTE, true);
    check_give_up(&policy, &counted(1), &lost, GiveUpReason::AttemptsExhausted);
}

// POL-7
#[test]
fn no_wait_of_less_than_a_second_is_obeyed() {
    let policy = run_policy(|_| {});
    for hint in [Duration::ZERO, Duration::from_millis(999)] {
        check_retry(&policy, &counted(1), &told_to_wait(hint), 2 * MINUTE, true);
    }
    check_retry(&policy, &counted(1), &told_to_wait(SECOND), SECOND, false);
}

// CLS-6
#[test]
fn a_change_of_class_does_not_reset_the_backoff() {
    let policy = run_policy(|_| {});
    let stated = |class| Failure::reported(Some(class), Code::name("quota"), "");
    let steps = [
        (busy(), MINUTE, true),
        (Failure::http(429, None, ""), 2 * MINUTE, true),
        (Failure::timeout(""), 4 * MINUTE, true),
        (told_to_wait(SECOND), SECOND, false),
        (Failure::exit(75, ""), 8 * MINUTE, true),
        (stated(Class::Retryable), 16 * MINUTE, true),
        (Failure::lost_worker(""), 32 * MINUTE, true),
        (busy(), HOUR, true),
        (Failure::spawn(""), HOUR, true),
    ];
    let mut history = History::default();
    for (failure, delay, counts) in steps {
        check_retry(&policy, &history, &failure, delay, counts);
        history = history.after(&failure, &judge(&policy, &history, &failure));
    }
    check_give_up(&policy, &history, &busy(), GiveUpReason::AttemptsExhausted);
}

// POL-3
#[test]
fn jitter_is_applied_after_the_cap() {
    let policy = run_policy(|spec| {
        spec.max_attempts = None;
        spec.cap = 3 * SECOND;
        spec.base = SECOND;
        spec.jitter = Jitter::Fraction(0.25);
    });
    let delays: Vec<Duration> = (10..1_010)
        .map(|failures| match judge(&policy, &counted(failures), &busy()) {
            Decision::RetryAt { delay, .. } => delay,
            Decision::GiveUp { reason } => panic!("{reason}"),
        })
        .collect();
    let (shortest, longest) = (*delays.iter().min().unwrap(), *delays.iter().max().unwrap());
    let ms = Duration::from_millis;
    assert!((ms(2_250)..ms(2_260)).contains(&shortest), "{shortest:?}");
    assert!((ms(3_740)..=ms(3_750)).contains(&longest), "{longest:?}");
}

// POL-5
#[test]
fn a_retry_beyond_the_end_of_time_is_at_the_end_of_time() {
    let policy = run_policy(|_| {});
    let at_the_end = Timestamp::MAX - SECOND;
    let decision = decide(&policy, &counted(0), &busy(), at_the_end, jitter_of_run(7));
    let expected = Decision::RetryAt { at: Timestamp::MAX, delay: MINUTE, counted: true };
    assert_eq!(decision, expected);
}
