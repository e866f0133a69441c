//! The states, limits and steps of gates.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use redrive_core::{
    GateChange, GateEvent, GateOutcome, GateResult, GateSettings, GateState, GateStatus, GateTrip,
    HeldPermits, Rate, START_HORIZON,
};

const BASE: Duration = Duration::from_secs(10);
const CAP: Duration = Duration::from_secs(60);

fn at(seconds: f64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs_f64(seconds)
}

fn settings(
    rate: Option<&str>,
    concurrency: Option<u32>,
    trip: Option<(f64, u32)>,
) -> GateSettings {
    let rate = rate.map(|rate| rate.parse::<Rate>().unwrap());
    let trip =
        trip.map(|(failures, of)| GateTrip { failures, of, within: Duration::from_secs(60) });
    GateSettings::new(rate, concurrency, trip, BASE, CAP).unwrap()
}

fn plain() -> GateSettings {
    settings(None, None, None)
}

fn result(outcome: GateOutcome, seconds: f64, permit: Option<u64>) -> GateResult {
    let failure = (outcome != GateOutcome::Answered).then(|| "429: slow down".to_owned());
    GateResult { outcome, ended_at: at(seconds), permit, unit: "run:7".to_owned(), failure }
}

fn limited(seconds: f64, until: Option<f64>, permit: Option<u64>) -> GateResult {
    result(GateOutcome::RateLimited { until: until.map(at) }, seconds, permit)
}

/// A gate that a unit closed at second 0 until second 30, while so many units ran at once.
fn closed(ran: u32) -> GateState {
    let mut gate = GateState::default();
    let change = gate.record(&plain(), &[limited(0.0, Some(30.0), None)], ran);
    assert_eq!(change, Some(GateChange::Closed));
    gate
}

fn admits(gate: &GateState, settings: &GateSettings, held: u32, seconds: f64) -> Option<u32> {
    let held = HeldPermits { all: held, current: held };
    gate.admits(settings, held, at(seconds), at(seconds))
}

// GAT-4
#[test]
fn every_transition_that_is_not_listed_is_refused() {
    use GateEvent as E;
    use GateStatus as S;
    let mut legal = vec![
        (S::Open, E::Trip, S::Closed),
        (S::Ramping, E::Trip, S::Closed),
        (S::Closed, E::Probe, S::Probing),
        (S::Probing, E::Widen, S::Ramping),
        (S::Ramping, E::Widen, S::Ramping),
        (S::Probing, E::Complete, S::Open),
        (S::Ramping, E::Complete, S::Open),
    ];
    legal.extend(S::ALL.map(|from| (from, E::Refuse, S::Closed)));
    legal.extend(S::ALL.map(|from| (from, E::Close, S::Closed)));
    legal.extend([S::Closed, S::Probing, S::Ramping].map(|from| (from, E::Open, S::Open)));
    for from in S::ALL {
        for event in E::ALL {
            let found = legal.iter().find(|(state, on, _)| (*state, *on) == (from, event));
            assert_eq!(from.apply(event).ok(), found.map(|(.., to)| *to), "{from} {event:?}");
        }
        assert_eq!(S::from_name(from.name()), Some(from));
    }
}

// GAT-2
#[test]
fn a_rate_limited_unit_closes_the_gate_until_the_time_of_its_hint() {
    let gate = closed(8);
    assert_eq!((gate.status, gate.closed_until), (GateStatus::Closed, Some(at(30.0))));
    assert_eq!(gate.closed_by.as_deref(), Some("run:7"));
    assert_eq!(gate.reason.as_deref(), Some("429: slow down"));
    assert_eq!(admits(&gate, &plain(), 0, 29.9), Some(0));
    assert_eq!(admits(&gate, &plain(), 0, 30.0), Some(1), "one unit finds out");
}

// GAT-2
#[test]
fn a_rate_limited_unit_without_a_hint_closes_the_gate_for_the_base() {
    let mut gate = GateState::default();
    gate.record(&plain(), &[limited(5.0, None, None)], 1);
    assert_eq!(gate.closed_until, Some(at(15.0)));
}

// GAT-2
#[test]
fn units_that_were_started_before_extend_a_closed_gate_and_never_open_it() {
    let mut gate = closed(8);
    let late = [
        limited(1.0, Some(45.0), None),
        limited(1.5, Some(20.0), None),
        result(GateOutcome::Answered, 2.0, None),
        result(GateOutcome::Failed, 2.0, None),
    ];
    assert_eq!(gate.record(&plain(), &late, 8), None);
    assert_eq!((gate.status, gate.closed_until), (GateStatus::Closed, Some(at(45.0))));
    gate.let_through();
    assert_eq!(gate.record(&plain(), &[result(GateOutcome::Answered, 46.0, None)], 8), None);
    assert_eq!(gate.status, GateStatus::Probing, "only the probe's own answer counts");
}

// GAT-4
#[test]
fn answers_widen_the_gate_in_steps_until_as_many_run_as_before() {
    let settings = plain();
    let mut gate = closed(6);
    assert!(gate.needs_permits(&settings));
    gate.let_through();
    assert_eq!(admits(&gate, &settings, 1, 30.0), Some(0), "no other starts while the probe runs");
    assert_eq!(admits(&gate, &settings, 0, 30.0), Some(1), "a lost probe leaves its place");
    let answer = || result(GateOutcome::Answered, 31.0, Some(gate.epoch));
    let (answer, final_failure) = (answer(), answer());
    let mut widths = Vec::new();
    for step in [1_usize, 2, 4, 6] {
        widths.push(admits(&gate, &settings, 0, 31.0).unwrap());
        let results = vec![answer.clone(); step];
        let change = gate.record(&settings, &results, 0);
        assert_eq!(change, (step == 6).then_some(GateChange::Opened));
    }
    assert_eq!(widths, [1, 2, 4, 6]);
    assert_eq!(admits(&gate, &settings, 0, 31.0), None);
    assert_eq!((gate.closings, gate.closed_until, gate.reason.clone()), (0, None, None));
    // Answers of the ramp that come late belong to an older epoch.
    assert_eq!(gate.record(&settings, &[final_failure], 0), None);
}

// GAT-4, GAT-5
#[test]
fn units_of_before_the_closing_count_for_the_limit_and_not_for_the_steps() {
    let mut gate = closed(8);
    let limited = settings(None, Some(8), None);
    let admits = |gate: &GateState, settings: &GateSettings, all, current| {
        gate.admits(settings, HeldPermits { all, current }, at(30.0), at(30.0))
    };
    assert_eq!(admits(&gate, &plain(), 7, 0), Some(1), "the probe waits for none of them");
    gate.let_through();
    assert_eq!(admits(&gate, &plain(), 8, 1), Some(0));
    assert_eq!(admits(&gate, &plain(), 7, 0), Some(1), "a lost probe leaves its place");
    assert_eq!(admits(&gate, &limited, 8, 0), Some(0));
}

// GAT-4
#[test]
fn a_refused_probe_closes_the_gate_for_longer_each_time_up_to_the_cap() {
    let settings = plain();
    let mut gate = closed(4);
    let mut now = 30.0;
    let mut periods = Vec::new();
    for refusal in [Some(1.0), None, None, None] {
        gate.let_through();
        let epoch = Some(gate.epoch);
        let result = match refusal {
            Some(hint) => limited(now, Some(now + hint), epoch),
            None => result(GateOutcome::Failed, now, epoch),
        };
        assert_eq!(gate.record(&settings, &[result], 0), None);
        let until = gate.closed_until.unwrap();
        periods.push(until.duration_since(at(now)).as_secs());
        now = until.as_second() as f64;
    }
    assert_eq!(periods, [20, 40, 60, 60], "a shorter hint does not shorten the period");
    assert_eq!(gate.target, 4, "what ran before the first closing");
}

// GAT-4
#[test]
fn a_ramp_goes_on_after_few_failures_and_ends_after_many() {
    let settings = plain();
    let ramping = || {
        let mut gate = closed(8);
        gate.let_through();
        let answer = result(GateOutcome::Answered, 31.0, Some(gate.epoch));
        gate.record(&settings, &vec![answer; 3], 0);
        assert_eq!((gate.status, gate.width), (GateStatus::Ramping, 4));
        gate
    };
    let failed = |gate: &GateState| result(GateOutcome::Failed, 32.0, Some(gate.epoch));
    let answered = |gate: &GateState| result(GateOutcome::Answered, 32.0, Some(gate.epoch));
    let mut gate = ramping();
    gate.record(&settings, &[failed(&gate), failed(&gate), answered(&gate), answered(&gate)], 0);
    assert_eq!((gate.status, gate.width), (GateStatus::Ramping, 8));
    let mut gate = ramping();
    gate.record(&settings, &[failed(&gate), failed(&gate), failed(&gate)], 0);
    assert_eq!(gate.status, GateStatus::Closed);
}

// GAT-4
#[test]
fn a_lost_worker_says_nothing_about_the_service() {
    let mut gate = closed(2);
    gate.let_through();
    let lost = result(GateOutcome::Released, 31.0, Some(gate.epoch));
    assert_eq!(gate.record(&plain(), &[lost], 0), None);
    assert_eq!(gate.status, GateStatus::Probing);
    assert_eq!(admits(&gate, &plain(), 0, 31.0), Some(1));
}

// GAT-2
#[test]
fn a_trip_closes_the_gate_when_more_than_the_share_of_the_last_attempts_failed() {
    let settings = settings(None, None, Some((0.5, 20)));
    let mut gate = GateState::default();
    assert!(gate.ignores_successes());
    let mixed = |failures: usize, seconds: f64| {
        let failed = result(GateOutcome::Failed, seconds, None);
        let mut results = vec![result(GateOutcome::Answered, seconds, None); 20 - failures];
        results.extend(vec![failed; failures]);
        results
    };
    assert_eq!(gate.record(&settings, &mixed(10, 1.0), 5), None, "half is not more than half");
    assert!(!gate.ignores_successes());
    assert_eq!(gate.record(&settings, &mixed(11, 2.0), 5), Some(GateChange::Closed));
    assert_eq!(gate.reason.as_deref(), Some("11 of the last 20 attempts failed as retryable"));
    assert_eq!((gate.closed_until, gate.target), (Some(at(12.0)), 5));

    let mut gate = GateState::default();
    gate.record(&settings, &mixed(10, 0.0), 5);
    assert_eq!(gate.record(&settings, &mixed(10, 61.0), 5), None, "a minute later they are over");
    let successes = vec![result(GateOutcome::Answered, 62.0, None); 20];
    gate.record(&settings, &successes, 5);
    assert!(gate.ignores_successes(), "twenty successes have pushed all failures out");
    let without = GateState::default().record(&plain(), &mixed(20, 0.0), 5);
    assert_eq!(without, None, "without a trip failures are the policy's concern");
}

// GAT-2
#[test]
fn an_operator_closes_a_gate_for_a_time_or_until_it_is_opened() {
    let settings = plain();
    let mut gate = GateState::default();
    assert!(gate.open().is_err(), "it is open");
    gate.close("ann", Some("the vendor asked"), at(0.0), Some(at(60.0)), 3);
    assert_eq!(admits(&gate, &settings, 0, 59.0), Some(0));
    assert_eq!(admits(&gate, &settings, 0, 60.0), Some(1));
    gate.close("ann", None, at(61.0), None, 0);
    assert_eq!(admits(&gate, &settings, 0, 1e9), Some(0));
    gate.record(&settings, &[limited(62.0, Some(63.0), None)], 0);
    assert_eq!(gate.closed_until, None, "a hint does not end an order");
    gate.open().unwrap();
    assert_eq!(admits(&gate, &settings, 0, 62.0), None);
}

// GAT-2
#[test]
fn a_clock_that_was_set_back_keeps_no_gate_closed() {
    let gate = closed(2);
    assert_eq!(admits(&gate, &plain(), 0, -3_600.0), Some(1));
    assert_eq!(admits(&gate, &plain(), 0, -1.0), Some(0), "a claim that was on its way");
}

// GAT-5
#[test]
fn concurrency_counts_the_units_that_are_held() {
    let settings = settings(None, Some(8), None);
    let gate = GateState::default();
    assert!(gate.needs_permits(&settings));
    assert_eq!(admits(&gate, &settings, 0, 0.0), Some(8));
    assert_eq!(admits(&gate, &settings, 8, 0.0), Some(0));
    assert_eq!(admits(&gate, &settings, 9, 0.0), Some(0));
}

// GAT-5
#[test]
fn start_times_of_a_slow_rate_come_one_by_one_and_those_of_a_fast_one_in_batches() {
    let slow = settings(Some("60/min"), None, None);
    let mut gate = GateState::default();
    assert_eq!(admits(&gate, &slow, 0, 0.0), Some(1));
    assert_eq!(gate.next_start(&slow, at(0.0)), Some(at(0.0)));
    assert_eq!(gate.take_start(&slow, at(0.0)), Some(Duration::from_millis(250)));
    assert_eq!(admits(&gate, &slow, 0, 0.7), Some(0));
    assert_eq!(admits(&gate, &slow, 0, 0.8), Some(1), "a little ahead of its time");

    let fast = settings(Some("10000/s"), None, None);
    let gate = GateState::default();
    let units = admits(&gate, &fast, 0, 0.0).unwrap();
    assert!((2_300..2_500).contains(&units), "{units}");
}

// GAT-5
#[test]
fn start_times_of_a_clock_that_began_again_are_forgotten() {
    let settings = settings(Some("100/s"), None, None);
    let mut gate = GateState::default();
    gate.take_start(&settings, at(1e6));
    assert!(admits(&gate, &settings, 0, 5.0).unwrap() > 0);
    assert_eq!(gate.next_start(&settings, at(5.0)), Some(at(5.0)));
}

// GAT-2
#[test]
fn settings_that_make_no_gate_are_refused_by_name() {
    let trip = |failures, of| Some(GateTrip { failures, of, within: BASE });
    let cases = [
        (Some(0), None, BASE, CAP, "concurrency"),
        (None, trip(0.0, 20), BASE, CAP, "trip.failures"),
        (None, trip(f64::NAN, 20), BASE, CAP, "trip.failures"),
        (None, trip(0.5, 0), BASE, CAP, "trip.of"),
        (None, trip(0.5, 1_001), BASE, CAP, "trip.of"),
        (None, None, Duration::ZERO, CAP, "base"),
        (None, None, CAP, BASE, "cap"),
    ];
    for (concurrency, trip, base, cap, field) in cases {
        let error = GateSettings::new(None, concurrency, trip, base, cap).unwrap_err();
        assert_eq!(error.field, field);
    }
    assert_eq!(plain().period(u32::MAX), CAP);
}

proptest! {
    // GAT-5: hosts claim at any time, and start their units as late as they may.
    #[test]
    fn no_period_has_more_starts_than_the_rate(
        units in 1_u32..200,
        claims in prop::collection::vec((0.0..0.4_f64, 1_u32..50, 0.0..1.0_f64), 1..100),
    ) {
        let rate: Rate = format!("{units}/s").parse().unwrap();
        let settings = settings(Some(&rate.to_string()), None, None);
        let (mut gate, mut clock, mut started) = (GateState::default(), at(0.0), Vec::new());
        for (pause, wanted, late) in claims {
            clock += SignedDuration::from_secs_f64(pause);
            let free = gate.admits(&settings, HeldPermits::default(), clock, clock).unwrap().min(wanted);
            if free == 0 {
                continue;
            }
            for _ in 0..free {
                let start = gate.next_start(&settings, clock).unwrap();
                prop_assert!((clock..=clock + START_HORIZON).contains(&start));
                let lateness = gate.take_start(&settings, start).unwrap();
                started.push(start + lateness.mul_f64(late));
            }
        }
        started.sort_unstable();
        for (first, from) in started.iter().enumerate() {
            let until = *from + rate.period();
            let within = started[first..].iter().take_while(|at| **at < until).count();
            prop_assert!(within <= units as usize, "{within} starts within a second from {from}");
        }
    }

    // GAT-4: whatever happens, a gate that is not open lets somebody through in the end.
    #[test]
    fn a_closed_gate_never_stays_closed(
        results in prop::collection::vec((0_u8..4, any::<bool>(), 0.0..20.0_f64), 0..60),
    ) {
        let settings = settings(None, None, Some((0.5, 4)));
        let (mut gate, mut now) = (GateState::default(), 0.0);
        for (outcome, permitted, wait) in results {
            now += wait;
            if admits(&gate, &settings, 0, now) != Some(0) {
                gate.let_through();
            }
            let permit = permitted.then_some(gate.epoch);
            let outcome = match outcome {
                0 => GateOutcome::Answered,
                1 => GateOutcome::Failed,
                2 => GateOutcome::RateLimited { until: Some(at(now + 5.0)) },
                _ => GateOutcome::Released,
            };
            gate.record(&settings, &[result(outcome, now, permit)], 3);
            prop_assert_ne!(admits(&gate, &settings, 0, now + CAP.as_secs_f64()), Some(0));
            prop_assert!(gate.status != GateStatus::Closed || gate.closed_until.is_some());
        }
    }
}
