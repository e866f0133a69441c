//! What holds for every policy, history and failure.

use std::time::Duration;

use jiff::Timestamp;
use proptest::{collection::vec, prelude::*};
use redrive_core::{
    Backoff, Decision, Failure, GiveUpReason, History, Jitter, Policy, PolicySpec, decide,
};

use crate::arbitrary::{failures, histories, jitter_of_run, policies, timestamps};

/// The furthest any backoff of this policy can lie away.
fn longest_backoff(spec: &PolicySpec) -> Duration {
    let wait = match spec.backoff {
        Backoff::Fixed => spec.base,
        Backoff::Linear | Backoff::Exponential => spec.cap,
    };
    match spec.jitter {
        Jitter::None | Jitter::Full => wait,
        Jitter::Absolute(time) => wait + time,
        Jitter::Fraction(share) => wait.mul_f64(1.0 + share),
    }
}

fn without_jitter(policy: &Policy) -> Policy {
    let spec = PolicySpec { jitter: Jitter::None, ..policy.spec().clone() };
    Policy::new(spec).unwrap()
}

proptest! {
    // POL-5, POL-6
    #[test]
    fn a_retry_is_its_delay_from_now_or_at_the_end_of_time(
        policy in policies(), history in histories(), failure in failures(), now in timestamps(),
    ) {
        let decision = decide(&policy, &history, &failure, now, jitter_of_run(7));
        if let Decision::RetryAt { at, delay, .. } = decision {
            let exact = now.as_nanosecond() + delay.as_nanos() as i128;
            prop_assert_eq!(at.as_nanosecond(), exact.min(Timestamp::MAX.as_nanosecond()));
        }
    }

    // POL-3, POL-7
    #[test]
    fn no_wait_is_longer_than_the_policy_allows(
        policy in policies(), history in histories(), failure in failures(), now in timestamps(),
    ) {
        let spec = policy.spec();
        let decision = decide(&policy, &history, &failure, now, jitter_of_run(7));
        if let Decision::RetryAt { delay, .. } = decision {
            match failure.class().hint() {
                Some(hint) => prop_assert_eq!(delay, hint.min(spec.max_hint)),
                None => {
                    let longest = longest_backoff(spec);
                    let rounding = Duration::from_nanos(1) + longest.div_f64((1_u64 << 50) as f64);
                    prop_assert!(delay <= longest + rounding, "{:?}", delay);
                }
            }
        }
    }

    // POL-4, POL-6
    #[test]
    fn deciding_twice_decides_the_same(
        policy in policies(), history in histories(), failure in failures(), now in timestamps(),
        id in 1_i64..,
    ) {
        let decide = || decide(&policy, &history, &failure, now, jitter_of_run(id));
        prop_assert_eq!(decide(), decide());
    }

    // POL-4
    #[test]
    fn waiting_does_not_change_the_wait(
        policy in policies(), history in histories(), failure in failures(),
        now in timestamps(), later in timestamps(),
    ) {
        let policy = policy.without_limits();
        let delay = |now| match decide(&policy, &history, &failure, now, jitter_of_run(7)) {
            Decision::RetryAt { delay, .. } => Some(delay),
            Decision::GiveUp { .. } => None,
        };
        prop_assert_eq!(delay(now), delay(later));
    }

    // POL-7
    #[test]
    fn a_failure_goes_uncounted_only_with_a_hint_and_only_max_deferrals_times_in_a_row(
        policy in policies(), history in histories(), failure in failures(), now in timestamps(),
    ) {
        let decision = decide(&policy, &history, &failure, now, jitter_of_run(7));
        if let Decision::RetryAt { counted, .. } = decision {
            let hinted = failure.class().hint().is_some();
            let patient = history.deferrals < policy.spec().max_deferrals;
            prop_assert_eq!(!counted, hinted && patient);
        }
    }

    // POL-2, POL-7
    #[test]
    fn no_spent_unit_is_tried_again_whatever_the_class(
        policy in policies(), history in histories(), failure in failures(), now in timestamps(),
    ) {
        let decision = decide(&policy, &history, &failure, now, jitter_of_run(7));
        let spent = |max| history.counted.saturating_add(1) >= max;
        if policy.spec().max_attempts.is_some_and(spent) {
            let given_up = matches!(decision, Decision::GiveUp { .. });
            prop_assert!(given_up, "{:?}", decision);
        } else {
            let exhausted = Decision::GiveUp { reason: GiveUpReason::AttemptsExhausted };
            prop_assert_ne!(decision, exhausted);
        }
    }

    // POL-6
    #[test]
    fn only_a_limit_on_age_makes_a_unit_too_old(
        policy in policies(), history in histories(), failure in failures(), now in timestamps(),
    ) {
        let too_old = Decision::GiveUp { reason: GiveUpReason::TooOld };
        if decide(&policy, &history, &failure, now, jitter_of_run(7)) == too_old {
            let first = history.first_attempt_at.unwrap();
            let age = now.as_nanosecond() - first.as_nanosecond();
            let max_age = policy.spec().max_age.unwrap();
            prop_assert!(age >= max_age.as_nanos() as i128);
        }
    }

    // CLS-6
    #[test]
    fn a_backoff_never_shrinks_whatever_classes_come_in_between(
        policy in policies(), failures in vec(failures(), 1..40), now in timestamps(),
    ) {
        let policy = without_jitter(&policy).without_limits().retrying_all();
        let (mut history, mut longest) = (History::default(), Duration::ZERO);
        for failure in failures {
            let decision = decide(&policy, &history, &failure, now, jitter_of_run(7));
            let after = history.after(&failure, &decision);
            if let Decision::RetryAt { delay, counted, .. } = decision {
                if failure.class().hint().is_none() {
                    prop_assert!(delay >= longest, "{:?} after {:?}", delay, longest);
                    prop_assert_eq!(delay, policy.backoff_delay(history.counted + 1));
                    longest = delay;
                }
                prop_assert_eq!(after.counted, history.counted + u32::from(counted));
            }
            history = after;
        }
    }

    // POL-7
    #[test]
    fn a_unit_that_only_fails_comes_to_an_end(
        max_attempts in 1_u32..6, max_deferrals in 1_u32..6, failures in vec(failures(), 1..8),
    ) {
        let policy = Policy::new(PolicySpec {
            max_attempts: Some(max_attempts),
            max_deferrals,
            ..PolicySpec::default()
        })
        .unwrap();
        let most = max_attempts * (max_deferrals + 1);
        let mut history = History::default();
        let mut executions = 0;
        for failure in failures.iter().cycle() {
            executions += 1;
            let decision = decide(&policy, &history, failure, Timestamp::UNIX_EPOCH, jitter_of_run(7));
            history = history.after(failure, &decision);
            if matches!(decision, Decision::GiveUp { .. }) {
                break;
            }
            prop_assert!(executions < most, "still alive after {} executions", executions);
        }
    }

    #[test]
    fn a_history_saturates(history in histories(), failure in failures(), now in timestamps()) {
        let policy = Policy::new(PolicySpec::default()).unwrap();
        let decision = decide(&policy, &history, &failure, now, jitter_of_run(7));
        let after = history.after(&failure, &decision);
        prop_assert!(after.counted >= history.counted);
        let row = if failure.class().hint().is_some() {
            history.deferrals.saturating_add(1)
        } else {
            0
        };
        prop_assert_eq!(after.deferrals, row);
        prop_assert_eq!(after.first_attempt_at, history.first_attempt_at);
    }

    // POL-6
    #[test]
    fn a_failure_reads_the_same_to_decide_whatever_its_message(
        policy in policies(), history in histories(), status in 300_u16..600, text in ".{0,20}",
    ) {
        let judge = |message: &str| {
            let failure = Failure::http(status, None, message);
            decide(&policy, &history, &failure, Timestamp::UNIX_EPOCH, jitter_of_run(7))
        };
        prop_assert_eq!(judge(&text), judge(""));
    }
}
