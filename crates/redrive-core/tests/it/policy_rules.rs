//! Rules of a policy: which failures they are about, and what they change.

use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;
use redrive_core::{
    Cause, Class, Code, Decision, FailedPartition, Failure, GiveUpReason, History, JitterKey,
    Policy, PolicyOverrides, PolicyRule, PolicySpec, Preset, Retriable, RetryForecast, RuleMatch,
    StoredFailure, TerminalReason, decide,
};

use crate::arbitrary::{failures, histories, jitter_of_run, policies};

fn rule(when: RuleMatch, overrides: PolicyOverrides) -> PolicyRule {
    PolicyRule { when, overrides }
}

fn of_code(code: u32) -> RuleMatch {
    RuleMatch { codes: vec![Code::Number(code)], ..RuleMatch::default() }
}

fn base(seconds: u64) -> PolicyOverrides {
    PolicyOverrides { base: Some(Duration::from_secs(seconds)), ..PolicyOverrides::default() }
}

/// The preset `run`, which waits for 60 s, 120 s …, with rules.
fn with_rules(rules: Vec<PolicyRule>) -> Policy {
    Policy::new(PolicySpec { rules, ..Preset::Run.spec() }).unwrap()
}

fn jitter() -> JitterKey {
    jitter_of_run(7)
}

fn judge(policy: &Policy, counted: u32, failure: &Failure) -> Decision {
    let history = History { counted, ..History::default() };
    decide(policy, &history, failure, Timestamp::UNIX_EPOCH, jitter())
}

#[track_caller]
fn check_wait(policy: &Policy, counted: u32, failure: &Failure, seconds: u64) {
    match judge(policy, counted, failure) {
        Decision::RetryAt { delay, .. } => assert_eq!(delay, Duration::from_secs(seconds)),
        gave_up => panic!("{gave_up:?}"),
    }
}

// POL-10
#[test]
fn the_first_rule_that_matches_gives_the_wait() {
    let policy = with_rules(vec![rule(of_code(529), base(300)), rule(of_code(529), base(7))]);
    check_wait(&policy, 0, &Failure::http(529, None, "overloaded"), 300);
    check_wait(&policy, 0, &Failure::http(503, None, "busy"), 60);
}

// POL-10
#[test]
fn all_rules_share_one_count_of_attempts() {
    let policy = with_rules(vec![rule(of_code(529), base(300))]);
    check_wait(&policy, 2, &Failure::http(529, None, ""), 1200);
    check_wait(&policy, 3, &Failure::http(503, None, ""), 480);
    let most = PolicyOverrides { max_attempts: Some(Some(3)), ..PolicyOverrides::default() };
    let policy = with_rules(vec![rule(of_code(500), most)]);
    let exhausted = Decision::GiveUp { reason: GiveUpReason::AttemptsExhausted };
    assert_eq!(judge(&policy, 2, &Failure::http(500, None, "")), exhausted);
    check_wait(&policy, 2, &Failure::http(503, None, ""), 240);
    assert_eq!(policy.max_attempts(), None, "it depends on what fails");
    assert_eq!(Preset::Run.policy().max_attempts(), Some(9));
}

// POL-10
#[test]
fn a_failure_must_be_in_every_list_of_a_rule() {
    let lost = Failure::lost_worker("silent");
    let limited = Failure::http(429, Some(Duration::from_secs(5)), "slow down");
    let cases = [
        (RuleMatch { classes: vec![Class::Retryable], ..RuleMatch::default() }, [true, false]),
        (
            RuleMatch {
                classes: vec![Class::RateLimited { retry_after: None }],
                ..RuleMatch::default()
            },
            [false, true],
        ),
        (RuleMatch { origins: vec![Cause::LostWorker], ..RuleMatch::default() }, [true, false]),
        (
            RuleMatch { fingerprints: vec![limited.fingerprint()], ..RuleMatch::default() },
            [false, true],
        ),
        (RuleMatch { origins: vec![Cause::LostWorker], ..of_code(429) }, [false, false]),
        (
            RuleMatch {
                codes: vec![Code::name("lost_worker"), Code::Number(429)],
                ..RuleMatch::default()
            },
            [true, true],
        ),
    ];
    for (when, expected) in cases {
        let policy = with_rules(vec![rule(when.clone(), base(7))]);
        for (failure, expected) in [&lost, &limited].into_iter().zip(expected) {
            let is_matched = policy.for_failure(failure) != &policy;
            assert_eq!(is_matched, expected, "{when}: {failure}");
        }
    }
}

// POL-10
#[test]
fn a_rule_can_make_a_failure_final_or_retriable() {
    let only = |retriable| PolicyOverrides { retriable: Some(retriable), ..Default::default() };
    let policy = with_rules(vec![
        rule(of_code(503), only(Retriable::None)),
        rule(of_code(404), only(Retriable::All)),
    ]);
    let refused = Decision::GiveUp { reason: GiveUpReason::NotRetriable };
    assert_eq!(judge(&policy, 0, &Failure::http(503, None, "")), refused);
    check_wait(&policy, 0, &Failure::http(404, None, ""), 60);
    let stated = Failure::reported(Some(Class::Final), Code::Number(404), "gone");
    let is_final = Decision::GiveUp { reason: GiveUpReason::Final };
    assert_eq!(judge(&policy, 0, &stated), is_final, "what the handler states binds");
}

// POL-5, POL-10
#[test]
fn a_rule_that_is_wrong_is_refused_with_its_number() {
    let spec = |rules| PolicySpec { rules, ..Preset::Run.spec() };
    let problem = |rules| Policy::new(spec(rules)).unwrap_err().to_string();
    let long = problem(vec![rule(of_code(1), base(7)), rule(of_code(2), base(7200))]);
    assert!(long.starts_with("rule = 2 is not allowed: cap = 1h"), "{long}");
    let empty = problem(vec![rule(RuleMatch::default(), base(7))]);
    assert!(empty.contains("needs a code, a class, an origin or a fingerprint"), "{empty}");
}

// POL-10, PAR-7
#[test]
fn a_failed_partition_waits_by_the_rule_of_its_last_failure() {
    let most = PolicyOverrides { max_attempts: Some(Some(2)), ..base(30) };
    let schema = RuleMatch { codes: vec![Code::name("schema")], ..RuleMatch::default() };
    let rules = vec![rule(schema, most)];
    let policy = Policy::new(PolicySpec { rules, ..Preset::Partition.spec() }).unwrap();
    let forecast = |code, attempt_count| {
        let failed = FailedPartition {
            attempt_count,
            error_message: None,
            updated_at: Timestamp::UNIX_EPOCH,
            first_attempt_at: None,
            logical_date: "1970-01-01".parse().unwrap(),
            asked: None,
            failure: Some(StoredFailure {
                class: "retryable",
                code,
                origin: None,
                fingerprint: "",
            }),
        };
        RetryForecast::of(failed, &policy, Timestamp::UNIX_EPOCH, jitter())
    };
    let wait = |code| match forecast(code, 1) {
        RetryForecast::RetryAt { delay, .. } => delay.as_secs(),
        RetryForecast::Terminal { reason } => panic!("{reason}"),
    };
    assert!(wait("schema") <= 60 && wait("timeout") >= 270);
    let exhausted = TerminalReason::Policy(GiveUpReason::AttemptsExhausted);
    assert_eq!(forecast("schema", 2), RetryForecast::Terminal { reason: exhausted });
    assert!(matches!(forecast("timeout", 2), RetryForecast::RetryAt { .. }));
}

proptest! {
    // POL-10
    #[test]
    fn a_failure_is_judged_alike_before_and_after_it_is_stored(
        policy in policies(), failure in failures(), history in histories(),
    ) {
        let whens = [
            RuleMatch { codes: vec![failure.code().clone()], ..RuleMatch::default() },
            RuleMatch { classes: vec![failure.class()], ..RuleMatch::default() },
            RuleMatch { origins: vec![failure.cause()], ..RuleMatch::default() },
            RuleMatch { fingerprints: vec![failure.fingerprint()], ..RuleMatch::default() },
        ];
        let (code, print) = (failure.code().to_string(), failure.fingerprint().to_string());
        let stored = StoredFailure {
            class: failure.class().name(),
            code: &code,
            origin: Some(failure.cause()),
            fingerprint: &print,
        };
        for when in whens {
            let shorter = PolicyOverrides { base: Some(Duration::from_nanos(1)), ..Default::default() };
            let ruled = PolicySpec { rules: vec![rule(when, shorter)], ..policy.spec().clone() };
            let ruled = Policy::new(ruled).unwrap();
            let (number, by_rule) = ruled.for_stored(stored);
            prop_assert_eq!((number, by_rule), (Some(1), ruled.for_failure(&failure)));
            let now = Timestamp::UNIX_EPOCH;
            prop_assert_eq!(
                decide(&ruled, &history, &failure, now, jitter()),
                decide(by_rule, &history, &failure, now, jitter())
            );
        }
    }
}
