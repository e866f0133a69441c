//! Chance that can be asked twice.

use std::time::Duration;

use jiff::civil::date;
use proptest::prelude::*;
use redrive_core::{Jitter, JitterKey, JitterSeed, PartitionKey, RunId, Unit};

use crate::arbitrary::{durations, jitter_of_run, jitters};

const DRAWS: usize = 100_000;

/// With 99 degrees of freedom chi-square lies in here for all but one in ten thousand fair sources:
/// above is a bias, below is too even to be chance.
const FAIR: std::ops::Range<f64> = 54.0..161.0;

#[track_caller]
fn check_even(what: &str, draws: impl Iterator<Item = f64>) {
    let mut buckets = [0_u32; 100];
    let mut total = 0.0;
    for draw in draws {
        buckets[(draw * 100.0) as usize] += 1;
        total += 1.0;
    }
    let expected = total / 100.0;
    let chi_square: f64 =
        buckets.iter().map(|found| (f64::from(*found) - expected).powi(2) / expected).sum();
    assert!(FAIR.contains(&chi_square), "{what}: chi-square {chi_square}");
}

/// Neighbours that know nothing of each other correlate by about 1/√count.
#[track_caller]
fn check_uncorrelated(what: &str, pairs: &[(f64, f64)]) {
    let count = pairs.len() as f64;
    let mean = |side: fn(&(f64, f64)) -> f64| pairs.iter().map(side).sum::<f64>() / count;
    let (mean_a, mean_b) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let (mut both, mut only_a, mut only_b) = (0.0, 0.0, 0.0);
    for (a, b) in pairs {
        let (a, b) = (a - mean_a, b - mean_b);
        both += a * b;
        only_a += a * a;
        only_b += b * b;
    }
    let correlation: f64 = both / (only_a * only_b).sqrt();
    assert!(correlation.abs() < 4.0 / count.sqrt(), "{what}: correlation {correlation}");
}

fn neighbours(draws: &[f64]) -> Vec<(f64, f64)> {
    draws.windows(2).map(|pair| (pair[0], pair[1])).collect()
}

fn draws_of_runs(seed: u64, n: u32) -> Vec<f64> {
    (1..=DRAWS as i64)
        .map(|id| JitterKey::new(JitterSeed(seed), &Unit::Run(RunId(id))).draw(n))
        .collect()
}

// POL-4
#[test]
fn the_waits_of_many_units_are_spread_evenly() {
    let draws = draws_of_runs(0, 1);
    check_even("units", draws.iter().copied());
    check_uncorrelated("neighbouring units", &neighbours(&draws));
}

// POL-4
#[test]
fn the_waits_of_one_unit_are_spread_evenly() {
    let key = jitter_of_run(7);
    let draws: Vec<f64> = (1..=DRAWS as u32).map(|n| key.draw(n)).collect();
    check_even("consecutive n", draws.iter().copied());
    check_uncorrelated("consecutive n", &neighbours(&draws));
}

// POL-4
#[test]
fn partitions_that_differ_in_the_day_or_the_customer_are_spread_evenly() {
    let first = date(2000, 1, 1);
    let days = first.series(jiff::Span::new().days(1)).take(1_000);
    let draws: Vec<f64> = days
        .flat_map(|day| {
            (0..20).map(move |customer| {
                let day = day.try_into().unwrap();
                let key = PartitionKey::new("ads", &customer.to_string(), "daily", day).unwrap();
                JitterKey::new(JitterSeed::default(), &Unit::Partition(key)).draw(1)
            })
        })
        .collect();
    check_even("partitions", draws.iter().copied());
    check_uncorrelated("neighbouring customers", &neighbours(&draws));
    let days: Vec<_> = draws.iter().copied().zip(draws[20..].iter().copied()).collect();
    check_uncorrelated("neighbouring days", &days);
}

// POL-4
#[test]
fn another_number_or_another_seed_is_another_draw() {
    let draws = draws_of_runs(0, 1);
    let later: Vec<_> = draws.iter().copied().zip(draws_of_runs(0, 2)).collect();
    check_uncorrelated("n and n + 1", &later);
    let seeded: Vec<_> = draws.iter().copied().zip(draws_of_runs(1, 1)).collect();
    check_uncorrelated("seeds 0 and 1", &seeded);
}

// POL-4
#[test]
fn the_default_seed_is_zero() {
    assert_eq!(JitterSeed::default(), JitterSeed(0));
}

/// Were one of these to change, every host of a mixed fleet would see other waits than its peers.
// POL-4
#[test]
fn draws_stay_the_same_from_release_to_release() {
    let cases = [
        ("run:7", 0, 1, 0.8513626766870138),
        ("run:7", 0, 2, 0.8995624697168179),
        ("run:7", 1, 1, 0.5799044165688836),
        ("item:7", 0, 1, 0.9591754048225547),
        ("sample:7/clean%2Fup", 0, 3, 0.20539851445364254),
        ("partition:ads/12%2F34/daily/2026-02-28", 0, 1, 0.15245239828444712),
        ("partition:ads/12%2F34/daily/2026-02-28", 0, u32::MAX, 0.34762972922386925),
    ];
    for (unit, seed, n, expected) in cases {
        let key = JitterKey::new(JitterSeed(seed), &unit.parse().unwrap());
        assert_eq!(key.draw(n), expected, "{unit} {seed} {n}");
    }
}

#[track_caller]
fn check_spread(jitter: Jitter, wait_ms: u64, draw: f64, spread_ms: u64) {
    let spread = jitter.spread(Duration::from_millis(wait_ms), draw);
    assert_eq!(spread, Duration::from_millis(spread_ms), "{jitter:?} at {draw}");
}

// POL-3
#[test]
fn a_quarter_of_a_capped_three_seconds_lies_between_its_bounds() {
    let quarter = Jitter::Fraction(0.25);
    check_spread(quarter, 3_000, 0.0, 2_250);
    check_spread(quarter, 3_000, 0.5, 3_000);
    check_spread(quarter, 3_000, 0.75, 3_375);
    check_spread(quarter, 3_000, 1.0, 3_750);
}

// POL-3
#[test]
fn a_jitter_longer_than_the_wait_stops_at_zero() {
    let minute = Jitter::Absolute(Duration::from_secs(60));
    check_spread(minute, 1_000, 0.0, 0);
    check_spread(minute, 1_000, 0.25, 0);
    check_spread(minute, 1_000, 0.5, 1_000);
    check_spread(minute, 1_000, 1.0, 61_000);
    check_spread(Jitter::Fraction(1.0), 1_000, 0.0, 0);
    check_spread(Jitter::Full, 1_000, 0.0, 0);
    check_spread(Jitter::Full, 1_000, 0.5, 500);
    check_spread(Jitter::None, 1_000, 0.0, 1_000);
}

/// The shortest and the longest that a wait may become.
fn bounds(jitter: Jitter, wait: Duration) -> (Duration, Duration) {
    match jitter {
        Jitter::None => (wait, wait),
        Jitter::Absolute(time) => (wait.saturating_sub(time), wait + time),
        Jitter::Fraction(share) => (wait.mul_f64(1.0 - share), wait.mul_f64(1.0 + share)),
        Jitter::Full => (Duration::ZERO, wait),
    }
}

proptest! {
    // POL-3, POL-5
    #[test]
    fn a_spread_wait_stays_within_its_bounds(
        jitter in jitters(), wait in durations(), draw in 0.0..1.0_f64,
    ) {
        let spread = jitter.spread(wait, draw);
        let (shortest, longest) = bounds(jitter, wait);
        // A double keeps 52 bits: a nanosecond at a month, half a microsecond at a century.
        let rounding = Duration::from_nanos(1) + longest.div_f64((1_u64 << 50) as f64);
        prop_assert!(spread + rounding >= shortest, "{:?} < {:?}", spread, shortest);
        prop_assert!(spread <= longest + rounding, "{:?} > {:?}", spread, longest);
    }

    // POL-4
    #[test]
    fn asking_twice_gives_the_same_answer(
        seed in any::<u64>(), id in 1_i64.., n in any::<u32>(), jitter in jitters(),
    ) {
        let unit = Unit::Run(RunId(id));
        let reread: Unit = unit.to_string().parse().unwrap();
        let first = JitterKey::new(JitterSeed(seed), &unit).draw(n);
        let second = JitterKey::new(JitterSeed(seed), &reread).draw(n);
        prop_assert_eq!(first.to_bits(), second.to_bits());
        let wait = Duration::from_secs(60);
        prop_assert_eq!(jitter.spread(wait, first), jitter.spread(wait, second));
    }

    // POL-4
    #[test]
    fn a_draw_is_a_share_below_one(seed in any::<u64>(), id in any::<i64>(), n in any::<u32>()) {
        let draw = JitterKey::new(JitterSeed(seed), &Unit::Run(RunId(id))).draw(n);
        prop_assert!((0.0..1.0).contains(&draw));
    }
}
