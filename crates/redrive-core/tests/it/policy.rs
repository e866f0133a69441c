//! What a policy holds, and what it refuses to hold.

use std::time::Duration;

use proptest::prelude::*;
use redrive_core::{Backoff, Jitter, MAX_DURATION, MAX_MULTIPLIER, Policy, PolicySpec, Retriable};

use crate::arbitrary::policies;

const TICK: Duration = Duration::from_nanos(1);

/// Checks that the default policy with one change is refused for that change alone.
#[track_caller]
fn check_refused(change: impl FnOnce(&mut PolicySpec), field: &str, value: &str, allowed: &str) {
    let mut spec = PolicySpec::default();
    change(&mut spec);
    let error = Policy::new(spec).unwrap_err();
    let [problem] = error.problems() else {
        panic!("one problem, not {error}");
    };
    let found = (problem.field, problem.value.as_str(), problem.allowed.as_str());
    assert_eq!(found, (field, value, allowed));
    let shown = format!("{field} = {value} is not allowed: {allowed}");
    assert_eq!(error.to_string(), shown);
}

#[track_caller]
fn check_accepted(change: impl FnOnce(&mut PolicySpec)) {
    let mut spec = PolicySpec::default();
    change(&mut spec);
    let policy = Policy::new(spec.clone()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(policy.spec(), &spec);
}

// POL-1
#[test]
fn a_policy_that_says_nothing_has_the_documented_defaults() {
    let expected = PolicySpec {
        max_attempts: Some(3),
        max_age: None,
        backoff: Backoff::Exponential,
        base: Duration::from_secs(1),
        multiplier: 2.0,
        cap: Duration::from_secs(60),
        jitter: Jitter::Fraction(0.25),
        retriable: Retriable::ByClass,
        max_hint: Duration::from_secs(24 * 3_600),
        max_deferrals: 100,
        max_lost: None,
        max_logical_age: None,
        rules: Vec::new(),
    };
    assert_eq!(PolicySpec::default(), expected);
    check_accepted(|_| {});
}

// POL-1
#[test]
fn a_policy_holds_every_setting_up_to_its_bounds() {
    check_accepted(|spec| spec.max_attempts = None);
    check_accepted(|spec| spec.max_attempts = Some(1));
    check_accepted(|spec| spec.max_attempts = Some(u32::MAX));
    check_accepted(|spec| spec.max_age = Some(TICK));
    check_accepted(|spec| spec.max_age = Some(MAX_DURATION));
    check_accepted(|spec| spec.backoff = Backoff::Fixed);
    check_accepted(|spec| spec.backoff = Backoff::Linear);
    check_accepted(|spec| spec.base = TICK);
    check_accepted(|spec| spec.base = spec.cap);
    check_accepted(|spec| spec.cap = MAX_DURATION);
    check_accepted(|spec| spec.multiplier = 1.0);
    check_accepted(|spec| spec.multiplier = MAX_MULTIPLIER);
    check_accepted(|spec| spec.jitter = Jitter::None);
    check_accepted(|spec| spec.jitter = Jitter::Full);
    check_accepted(|spec| spec.jitter = Jitter::Fraction(1.0));
    check_accepted(|spec| spec.jitter = Jitter::Absolute(TICK));
    check_accepted(|spec| spec.jitter = Jitter::Absolute(MAX_DURATION));
    check_accepted(|spec| spec.retriable = Retriable::None);
    check_accepted(|spec| spec.retriable = Retriable::Codes(Vec::new()));
    check_accepted(|spec| spec.max_hint = MAX_DURATION);
    check_accepted(|spec| spec.max_deferrals = 1);
}

// POL-5
#[test]
fn no_attempts_at_all_are_refused() {
    let allowed = "it counts the first execution, so at least 1";
    check_refused(|spec| spec.max_attempts = Some(0), "max-attempts", "0", allowed);
    check_refused(|spec| spec.max_deferrals = 0, "max-deferrals", "0", "at least 1");
}

// POL-5
#[test]
fn a_multiplier_that_is_no_growth_is_refused_whatever_the_backoff() {
    let cases = [
        (f64::NAN, "NaN"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
        (0.0, "0"),
        (-0.0, "-0"),
        (-2.0, "-2"),
        (0.5, "0.5"),
        (1000.5, "1000.5"),
    ];
    for (multiplier, shown) in cases {
        for backoff in Backoff::ALL {
            let change = |spec: &mut PolicySpec| {
                spec.backoff = backoff;
                spec.multiplier = multiplier;
            };
            check_refused(change, "multiplier", shown, "from 1 to 1000");
        }
    }
}

// POL-5
#[test]
fn a_time_of_zero_or_beyond_a_century_is_refused() {
    let allowed = "longer than zero, at most 36500d";
    let beyond = MAX_DURATION + TICK;
    for (time, shown) in [(Duration::ZERO, "0s"), (beyond, "36500d1ns")] {
        let check = |field, change: &dyn Fn(&mut PolicySpec)| {
            check_refused(change, field, shown, allowed);
        };
        check("max-age", &|spec| spec.max_age = Some(time));
        check("max-hint", &|spec| spec.max_hint = time);
        check("jitter", &|spec| spec.jitter = Jitter::Absolute(time));
        check("cap", &|spec| spec.cap = time);
        check("cap", &|spec| {
            spec.backoff = Backoff::Fixed;
            spec.cap = time;
        });
    }
    check_refused(|spec| spec.base = Duration::ZERO, "base", "0s", allowed);
}

// POL-5
#[test]
fn a_share_of_jitter_outside_zero_to_one_is_refused() {
    let cases =
        [(f64::NAN, "NaN%"), (f64::INFINITY, "inf%"), (0.0, "0%"), (-0.25, "-25%"), (1.5, "150%")];
    for (share, shown) in cases {
        let allowed = "a share above 0% and up to 100%";
        check_refused(|spec| spec.jitter = Jitter::Fraction(share), "jitter", shown, allowed);
    }
}

// POL-5
#[test]
fn a_cap_below_the_base_is_refused_unless_the_backoff_has_no_cap() {
    let ten_minutes = Duration::from_secs(600);
    for backoff in [Backoff::Linear, Backoff::Exponential] {
        let change = |spec: &mut PolicySpec| {
            spec.backoff = backoff;
            spec.base = ten_minutes;
        };
        check_refused(change, "cap", "1m", "at least the base, 10m");
    }
    check_accepted(|spec| {
        spec.backoff = Backoff::Fixed;
        spec.base = ten_minutes;
    });
}

// POL-5
#[test]
fn everything_that_is_wrong_is_reported_at_once_in_the_order_of_the_fields() {
    let error = Policy::new(PolicySpec {
        max_attempts: Some(0),
        max_age: Some(Duration::ZERO),
        backoff: Backoff::Exponential,
        base: Duration::ZERO,
        multiplier: f64::NAN,
        cap: Duration::ZERO,
        jitter: Jitter::Fraction(2.0),
        retriable: Retriable::ByClass,
        max_hint: Duration::ZERO,
        max_deferrals: 0,
        max_lost: Some(0),
        max_logical_age: Some(Duration::ZERO),
        rules: Vec::new(),
    })
    .unwrap_err();
    let fields: Vec<&str> = error.problems().iter().map(|problem| problem.field).collect();
    assert_eq!(
        fields,
        [
            "max-attempts",
            "max-age",
            "base",
            "multiplier",
            "cap",
            "jitter",
            "max-hint",
            "max-deferrals",
            "max-lost",
            "max-logical-age",
        ]
    );
    let shown = error.to_string();
    for field in fields {
        assert!(shown.contains(&format!("{field} = ")), "{field} is missing in {shown:?}");
    }
}

#[test]
fn backoffs_go_by_the_names_used_in_configuration() {
    assert_eq!(Backoff::ALL.map(Backoff::name), ["fixed", "linear", "exponential"]);
}

proptest! {
    #[test]
    fn a_policy_freed_of_its_limits_keeps_everything_else(policy in policies()) {
        let freed = policy.without_limits();
        let expected = PolicySpec { max_attempts: None, max_age: None, ..policy.spec().clone() };
        prop_assert_eq!(freed.spec(), &expected);
        let retrying = policy.retrying_all();
        let expected = PolicySpec { retriable: Retriable::All, ..policy.spec().clone() };
        prop_assert_eq!(retrying.spec(), &expected);
    }

    // POL-5
    #[test]
    fn no_settings_at_all_make_the_check_panic(
        max_attempts in any::<Option<u32>>(),
        times in any::<[u64; 4]>(),
        multiplier in any::<f64>(),
        share in any::<f64>(),
        max_deferrals in any::<u32>(),
    ) {
        let [max_age, base, cap, max_hint] = times.map(Duration::from_secs);
        let checked = Policy::new(PolicySpec {
            max_attempts,
            max_age: Some(max_age),
            backoff: Backoff::Exponential,
            base,
            multiplier,
            cap,
            jitter: Jitter::Fraction(share),
            retriable: Retriable::ByClass,
            max_hint,
            max_deferrals,
            max_lost: max_attempts,
            max_logical_age: Some(max_age),
            rules: Vec::new(),
        });
        if let Err(error) = checked {
            prop_assert!(!error.problems().is_empty());
        }
    }
}
