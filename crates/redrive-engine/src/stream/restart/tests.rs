//! Waits grow, have a bound, and are spread.

use super::*;

fn start() -> Instant {
    Instant::now()
}

// HANDLERS-3
#[test]
fn each_failure_in_a_row_waits_longer_up_to_a_bound() {
    let (now, mut restart) = (start(), Restart::default());
    let waits: Vec<Duration> =
        (0..40).map(|_| restart.failed(0, &mut LastRestart::default(), now)).collect();
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
    let (now, mut restart) = (start(), Restart::default());
    (0..9).for_each(|_| _ = restart.failed(0, &mut LastRestart::default(), now));
    restart.answered();
    assert_eq!(restart.due(), None);
    assert!(restart.failed(0, &mut LastRestart::default(), now) <= BASE.mul_f64(1.25));
}

// HANDLERS-3
#[test]
fn the_restarts_of_a_handler_come_one_after_the_other() {
    let (now, mut last) = (start(), LastRestart::default());
    let mut places = [Restart::default(); 100];
    let mut due: Vec<Instant> = Vec::new();
    for (at, place) in places.iter_mut().enumerate() {
        place.failed(at, &mut last, now);
        due.push(place.due().unwrap());
    }
    for pair in due.windows(2) {
        assert!(pair[1] >= pair[0] + GAP);
    }
    assert!(due[99] <= now + GAP * 100 + BASE * 2, "and none waits for ever");
}
