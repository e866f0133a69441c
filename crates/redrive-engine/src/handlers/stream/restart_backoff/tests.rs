//! Waits grow, have a bound, and are spread.

use super::*;

fn start() -> Instant {
    Instant::now()
}

// HANDLERS-3
#[test]
fn each_failure_in_a_row_waits_longer_up_to_a_bound() {
    let (now, mut restart) = (start(), RestartBackoff::default());
    let waits: Vec<Duration> = (0..40).map(|_| restart.failed(0, now)).collect();
    for (wait, ideal) in waits.iter().zip([100, 200, 400, 800, 1_600, 3_200, 6_400]) {
        let ideal = Duration::from_millis(ideal);
        assert!(*wait >= ideal.mul_f64(0.75) && *wait <= ideal.mul_f64(1.25), "{wait:?}");
    }
    assert!(waits.iter().all(|wait| *wait <= CAP.mul_f64(1.25)));
    assert!(waits[39] >= CAP.mul_f64(0.75), "it stays at the bound");
}

// HANDLERS-3
#[test]
fn a_good_answer_ends_the_row() {
    let (now, mut restart) = (start(), RestartBackoff::default());
    (0..9).for_each(|_| _ = restart.failed(0, now));
    restart.answered();
    assert_eq!(restart.due(Some(now)), None);
    assert!(restart.failed(0, now) <= BASE.mul_f64(1.25));
}

// HANDLERS-3
#[test]
fn the_restarts_of_a_handler_come_one_after_the_other() {
    let (now, mut restart) = (start(), RestartBackoff::default());
    let wait = restart.failed(0, now);
    assert_eq!(restart.due(None), Some(now + wait));
    assert_eq!(restart.due(Some(now)), Some(now + wait), "one long ago does not matter");
    assert_eq!(restart.due(Some(now + wait)), Some(now + wait + GAP));
}

// HANDLERS-3
#[test]
fn places_that_fail_at_once_do_not_wait_alike() {
    let now = start();
    let mut waits: Vec<Duration> =
        (0..100).map(|place| RestartBackoff::default().failed(place, now)).collect();
    waits.sort();
    waits.dedup();
    assert_eq!(waits.len(), 100);
    assert!(waits[99] - waits[0] > BASE.mul_f64(0.4), "they are spread over the whole range");
}
