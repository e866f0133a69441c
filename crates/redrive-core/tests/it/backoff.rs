//! The wait before jitter.

use std::time::Duration;

use proptest::prelude::*;
use redrive_core::{Backoff, Policy, PolicySpec};

use crate::arbitrary::{durations, multipliers, policies};

fn policy(backoff: Backoff, base: Duration, multiplier: f64, cap: Duration) -> Policy {
    Policy::new(PolicySpec { backoff, base, multiplier, cap, ..PolicySpec::default() }).unwrap()
}

/// Checks the waits after failures 1, 2, 3 … in seconds.
#[track_caller]
fn check(backoff: Backoff, multiplier: f64, waits: &[f64]) {
    let policy = policy(backoff, Duration::from_secs(2), multiplier, Duration::from_secs(10));
    for (n, wait) in (1..).zip(waits) {
        assert_eq!(policy.backoff_delay(n), Duration::from_secs_f64(*wait), "n = {n}");
    }
}

// POL-2
#[test]
fn each_backoff_grows_by_its_own_formula_up_to_the_cap() {
    check(Backoff::Fixed, 2.0, &[2.0, 2.0, 2.0, 2.0, 2.0, 2.0]);
    check(Backoff::Linear, 2.0, &[2.0, 4.0, 6.0, 8.0, 10.0, 10.0]);
    check(Backoff::Exponential, 2.0, &[2.0, 4.0, 8.0, 10.0, 10.0, 10.0]);
    check(Backoff::Exponential, 1.5, &[2.0, 3.0, 4.5, 6.75, 10.0, 10.0]);
    check(Backoff::Exponential, 1.0, &[2.0, 2.0, 2.0, 2.0, 2.0, 2.0]);
    check(Backoff::Exponential, 1000.0, &[2.0, 10.0, 10.0]);
}

// POL-2
#[test]
fn a_fixed_backoff_has_no_cap() {
    let hour = Duration::from_secs(3_600);
    let fixed = policy(Backoff::Fixed, hour, 2.0, Duration::from_secs(60));
    assert_eq!(fixed.backoff_delay(1), hour);
    assert_eq!(fixed.backoff_delay(u32::MAX), hour);
}

// POL-5
#[test]
fn attempt_four_billion_gives_the_cap() {
    let (base, cap) = (Duration::from_secs(1), Duration::from_secs(3_600));
    for n in [4_294_967_295, 4_294_967_294, 2_147_483_648, 2_147_483_647, 1_000_000] {
        assert_eq!(policy(Backoff::Fixed, base, 2.0, cap).backoff_delay(n), base);
        assert_eq!(policy(Backoff::Linear, base, 2.0, cap).backoff_delay(n), cap);
        assert_eq!(policy(Backoff::Exponential, base, 2.0, cap).backoff_delay(n), cap);
        assert_eq!(policy(Backoff::Exponential, base, 1.001, cap).backoff_delay(n), cap);
    }
}

/// What the exact formula gives, in whole nanoseconds.
fn exact(backoff: Backoff, base: Duration, cap: Duration, n: u32) -> Duration {
    let (base, cap) = (base.as_nanos(), cap.as_nanos());
    let nanos = match backoff {
        Backoff::Fixed => base,
        Backoff::Linear => (base * u128::from(n)).min(cap),
        Backoff::Exponential => (base << (n - 1).min(64)).min(cap),
    };
    Duration::from_nanos(nanos.try_into().unwrap())
}

fn numbers() -> impl Strategy<Value = u32> {
    prop_oneof![1_u32..100, 1_u32.., Just(u32::MAX)]
}

proptest! {
    // POL-2
    #[test]
    fn up_to_a_month_every_wait_is_exact_to_the_nanosecond(
        backoff in prop::sample::select(Backoff::ALL.to_vec()),
        base in 1_u64..=86_400_000,
        above in 0_u64..=29 * 86_400_000,
        n in numbers(),
    ) {
        let base_time = Duration::from_millis(base);
        let cap = Duration::from_millis(base + above);
        let wait = policy(backoff, base_time, 2.0, cap).backoff_delay(n);
        prop_assert_eq!(wait, exact(backoff, base_time, cap, n));
    }

    // POL-2, POL-5
    #[test]
    fn a_wait_never_leaves_the_range_from_base_to_cap(policy in policies(), n in numbers()) {
        let spec = policy.spec();
        let wait = policy.backoff_delay(n);
        let longest = if spec.backoff == Backoff::Fixed { spec.base } else { spec.cap };
        prop_assert!(spec.base <= wait && wait <= longest, "{:?} at {}", wait, n);
        prop_assert_eq!(policy.backoff_delay(1), spec.base);
    }

    // POL-2
    #[test]
    fn a_wait_never_shrinks_with_the_attempt(policy in policies(), n in numbers(), m in numbers()) {
        let (early, late) = (n.min(m), n.max(m));
        prop_assert!(policy.backoff_delay(early) <= policy.backoff_delay(late));
        let next = n.saturating_add(1);
        prop_assert!(policy.backoff_delay(n) <= policy.backoff_delay(next));
    }

    // POL-5
    #[test]
    fn every_growing_backoff_ends_at_its_cap(
        (a, b) in (durations(), durations()),
        multiplier in multipliers().prop_filter("growth", |multiplier| *multiplier > 1.001),
    ) {
        let (base, cap) = (a.min(b), a.max(b));
        let wait = policy(Backoff::Exponential, base, multiplier, cap).backoff_delay(u32::MAX);
        prop_assert_eq!(wait, cap);
        let wait = policy(Backoff::Linear, base, 2.0, cap).backoff_delay(u32::MAX);
        prop_assert_eq!(wait, exact(Backoff::Linear, base, cap, u32::MAX));
    }
}
