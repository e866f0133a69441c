//! Canary, pace, ramp and abort condition of plans.

use std::time::Duration;

use jiff::Timestamp;
use proptest::{collection::vec, prelude::*};
use redrive_core::{
    AbortShare, InvalidPlanSettings, PlanBatch, PlanCounts, PlanEvent, PlanSettings, PlanStatus,
    PlanStep, PlanTiming, Rate,
};

const START: Timestamp = Timestamp::UNIX_EPOCH;

fn seconds(seconds: f64) -> Timestamp {
    START + Duration::from_secs_f64(seconds)
}

fn settings(canary: Option<u64>, pace: &str, ramp: u64, abort_if: &str) -> PlanSettings {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let pace = given(pace).map(|pace| pace.parse().unwrap());
    let abort_if = given(abort_if).map(|share| share.parse().unwrap());
    PlanSettings::new(canary, pace, Some(Duration::from_secs(ramp)), abort_if).unwrap()
}

fn counts(changed: u64, recovered: u64, same_cause: u64, other_cause: u64) -> PlanCounts {
    let pending = changed - recovered - same_cause - other_cause;
    PlanCounts { total: 2_000, changed, skipped: 0, pending, recovered, same_cause, other_cause }
}

fn step(settings: &PlanSettings, counts: PlanCounts) -> PlanStep {
    settings.next_step(&counts, &PlanTiming::default(), START)
}

fn units(step: &PlanStep) -> u32 {
    match step {
        PlanStep::Change(batch) => batch.units,
        other => panic!("{other:?}"),
    }
}

// PLN-2, PLN-4
#[test]
fn a_plan_moves_only_from_where_it_may() {
    use PlanEvent as E;
    use PlanStatus as S;
    let legal = [
        (S::Draft, E::Apply, S::Running),
        (S::Draft, E::Abort, S::Aborted),
        (S::Running, E::Pause, S::Paused),
        (S::Running, E::Complete, S::Done),
        (S::Running, E::Abort, S::Aborted),
        (S::Running, E::Undo, S::Undone),
        (S::Paused, E::Resume, S::Running),
        (S::Paused, E::Abort, S::Aborted),
        (S::Paused, E::Undo, S::Undone),
        (S::Done, E::Undo, S::Undone),
        (S::Aborted, E::Undo, S::Undone),
    ];
    for from in S::ALL {
        for event in E::ALL {
            let found = legal.iter().find(|(state, on, _)| (*state, *on) == (from, event));
            assert_eq!(from.apply(event).ok(), found.map(|(.., to)| *to), "{from} {event:?}");
        }
        assert_eq!(S::from_name(from.name()), Some(from));
    }
}

// PLN-2
#[test]
fn settings_are_read_as_people_write_them() {
    for text in ["50/s", "1/m", "20/h", "5/d", "4294967295/s"] {
        assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
    }
    for text in ["", "50", "50/", "/s", "0/s", "-1/s", "1.5/s", "50/w", "50 / s", "4294967296/s"] {
        let error = text.parse::<Rate>().unwrap_err().to_string();
        assert!(error.contains("such as 50/s"), "{text}: {error}");
    }
    for text in ["20%", "7%", "0.5%", "0.000001%", "33.333333%", "100%"] {
        assert_eq!(text.parse::<AbortShare>().unwrap().to_string(), text);
    }
    // What a plan would store as 0%, which it could not read, is refused.
    for text in ["", "20", "0%", "0.0000001%", "1e-300%", "101%", "-1%", "NaN%", "inf%"] {
        assert!(text.parse::<AbortShare>().is_err(), "{text}");
    }
    let rounded: AbortShare = "0.0000006%".parse().unwrap();
    assert_eq!(rounded.to_string().parse(), Ok(rounded));
    let all = settings(Some(10), "50/s", 600, "5%");
    assert_eq!(all.to_string(), "canary 10, pace 50/s, ramp 10m, abort-if 5%");
    let refused = PlanSettings::new(Some(0), None, None, None);
    assert_eq!(refused, Err(InvalidPlanSettings::EmptyCanary));
    let refused = PlanSettings::new(None, None, Some(Duration::from_secs(1)), None);
    assert_eq!(refused, Err(InvalidPlanSettings::RampWithoutPace));
}

// PLN-2
#[test]
fn the_canary_is_changed_first_and_must_end() {
    let plan = settings(Some(10), "", 0, "");
    assert_eq!(units(&step(&plan, counts(0, 0, 0, 0))), 10);
    assert_eq!(units(&step(&plan, counts(7, 7, 0, 0))), 3, "skipped units are replaced");
    assert_eq!(step(&plan, counts(10, 9, 0, 0)), PlanStep::WaitForCanary);
    assert_eq!(units(&step(&plan, counts(10, 9, 1, 0))), 1_000);
    assert_eq!(units(&step(&plan, counts(1_010, 10, 0, 0))), 990, "the rest is not waited for");
    assert_eq!(step(&plan, counts(2_000, 10, 0, 0)), PlanStep::Complete);
}

// PLN-2
#[test]
fn a_canary_goes_on_until_enough_of_its_units_have_an_outcome() {
    let plan = settings(Some(10), "", 0, "");
    let check = |changed, pending, recovered| {
        let counts = PlanCounts { changed, pending, recovered, total: 2_000, ..Default::default() };
        step(&plan, counts)
    };
    assert_eq!(units(&check(10, 0, 0)), 10, "others changed all of them");
    assert_eq!(units(&check(10, 6, 1)), 3);
    assert_eq!(check(13, 6, 4), PlanStep::WaitForCanary);
    assert_eq!(units(&check(13, 0, 9)), 1);
    assert_eq!(units(&check(14, 0, 10)), 1_000);
    assert_eq!(units(&check(1_014, 0, 10)), 986, "what others change later is no canary");
}

// PLN-2
#[test]
fn a_setting_that_is_given_replaces_that_setting_alone() {
    let kept = settings(Some(10), "50/s", 600, "5%");
    let other = kept.with(Some(20), None, None, None).unwrap();
    assert_eq!(other.to_string(), "canary 20, pace 50/s, ramp 10m, abort-if 5%");
    let other = kept.with(None, Some("5/m".parse().unwrap()), Some(Duration::ZERO), None).unwrap();
    assert_eq!(other.to_string(), "canary 10, pace 5/m, abort-if 5%");
    let nothing = PlanSettings::default();
    assert_eq!(nothing.with(None, None, None, None).unwrap(), nothing);
    let canary = nothing.with(Some(3), None, None, None).unwrap();
    assert_eq!(canary.to_string(), "canary 3, abort-if 20%");
}

// PLN-2
#[test]
fn a_canary_leaves_units_to_protect_unless_the_plan_is_small() {
    #[track_caller]
    fn check(canary: u64, units: u64, why: Option<&str>) {
        let checked = settings(Some(canary), "", 0, "").check_canary(units);
        assert_eq!(checked.err().map(|why| why.to_string()).as_deref(), why);
    }
    check(1_044, 1_045, None);
    check(5_000, 1_045, Some("the canary (5000) must be smaller than the plan (1045 units)"));
    check(11, 11, Some("the canary (11) must be smaller than the plan (11 units)"));
    check(10, 10, None);
    check(10, 3, None);
    check(11, 1, Some("the canary (11) must be smaller than the plan (1 unit)"));
}

// PLN-2
#[test]
fn too_many_failures_abort_the_plan_and_it_says_why() {
    #[track_caller]
    fn check(plan: &PlanSettings, counts: PlanCounts, why: Option<&str>) {
        let step = step(plan, counts);
        let abort = match &step {
            PlanStep::Abort(abort) => Some(abort.to_string()),
            _ => None,
        };
        assert_eq!(abort.as_deref(), why, "{step:?}");
    }
    let plan = settings(Some(10), "", 0, "20%");
    check(&plan, counts(10, 9, 1, 0), None);
    let all = "10 of 10 canary units failed again, each of the same cause as before; the plan aborts from 20%";
    check(&plan, counts(10, 0, 10, 0), Some(all));
    let early = "2 of the 2 canary units that ended failed again, 1 of the same cause as before and 1 of another; \
                 the plan aborts from 20% of its 10 canary units";
    check(&plan, counts(10, 0, 1, 1), Some(early));
    let later = "220 of 1000 units failed again, each of the same cause as before; the plan aborts from 20%";
    check(&plan, counts(1_500, 780, 220, 0), Some(later));
    check(&plan, counts(1_500, 801, 199, 0), None);

    let without_canary = settings(None, "", 0, "50%");
    check(&without_canary, counts(100, 0, 9, 0), None);
    let ten =
        "10 of 10 units failed again, each of the same cause as before; the plan aborts from 50%";
    check(&without_canary, counts(100, 0, 10, 0), Some(ten));
    check(&settings(None, "", 0, ""), counts(100, 0, 100, 0), None);
    // Nothing is left to protect.
    check(&plan, PlanCounts { total: 100, ..counts(100, 0, 100, 0) }, None);
}

// PLN-2
#[test]
fn a_ramp_goes_from_slow_to_full_and_begins_after_the_canary() {
    let plan = settings(Some(10), "100/s", 100, "50%");
    let at = |from: Option<f64>, now: f64| {
        let timing = PlanTiming { ramp_from: from.map(seconds), next_at: None };
        match plan.next_step(&counts(10, 10, 0, 0), &timing, seconds(now)) {
            PlanStep::Change(batch) => batch,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(at(None, 7.0).ramp_from, Some(seconds(7.0)));
    let rate = |batch: PlanBatch| (1.0 / batch.interval.as_secs_f64()).round() as u32;
    let rates = [0.0, 5.0, 25.0, 50.0, 100.0, 900.0].map(|now| rate(at(Some(0.0), now)));
    assert_eq!(rates, [10, 10, 24, 48, 96, 96]);
    let canary = plan.next_step(&counts(0, 0, 0, 0), &PlanTiming::default(), START);
    assert!(matches!(canary, PlanStep::Change(PlanBatch { ramp_from: None, .. })), "{canary:?}");
}

// PLN-1
#[test]
fn the_time_that_a_plan_takes_is_known_beforehand() {
    #[track_caller]
    fn check(plan: PlanSettings, units: u64, begun: f64, expected: Option<u64>) {
        let timing = PlanTiming { ramp_from: Some(START), next_at: None };
        let time = plan.time_for(units, &timing, seconds(begun));
        assert_eq!(time.map(|time| time.as_secs_f64().round() as u64), expected);
    }
    check(settings(None, "", 0, ""), 1_000, 0.0, None);
    check(settings(None, "50/s", 0, ""), 2_000, 0.0, Some(40));
    check(settings(None, "50/s", 100, ""), 2_525, 0.0, Some(100));
    check(settings(None, "50/s", 100, ""), 5_025, 0.0, Some(150));
    check(settings(None, "50/s", 100, ""), 25, 0.0, Some(5));
    check(settings(None, "50/s", 100, ""), 2_475, 10.0, Some(90));
    check(settings(None, "50/s", 100, ""), 500, 500.0, Some(10));
}

/// What happens around one step of the executor.
#[derive(Debug, Clone)]
struct Turn {
    /// From the end of one step to the next look.
    pause_us: u64,
    /// How many units of the batch were skipped.
    skips: u32,
    resumes: bool,
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let pause = prop_oneof![
        4 => Just(0_u64),
        4 => 0_u64..100_000,
        1 => 0_u64..10_000_000,
        // Killed, and taken over much later.
        1 => 0_u64..10_000_000_000,
    ];
    let skips = prop_oneof![4 => Just(0_u32), 1 => 0_u32..5];
    let turn = (pause, skips, prop::bool::weighted(0.05));
    let turn = turn.prop_map(|(pause_us, skips, resumes)| Turn { pause_us, skips, resumes });
    let steady = Turn { pause_us: 0, skips: 0, resumes: false };
    prop_oneof![vec(turn, 50..400), vec(Just(steady), 100..400)]
}

// PLN-2
#[test]
fn a_clock_that_starts_again_delays_a_plan_by_one_batch_at_most() {
    let day = seconds(86_400.0);
    let timing = PlanTiming { ramp_from: Some(day), next_at: Some(day) };
    for (pace, ramp, wait) in [("5/d", 0, 17_280.0), ("60/m", 0, 1.0), ("60/m", 600, 10.0)] {
        let found = settings(None, pace, ramp, "").timing_at(&timing, seconds(60.0));
        assert_eq!(found.ramp_from, None, "the ramp starts again");
        let late = found.next_at.unwrap().duration_since(seconds(60.0 + wait));
        assert!(late.abs() < Duration::from_millis(1).try_into().unwrap(), "{pace}: {found:?}");
    }
}

proptest! {
    // PLN-2
    #[test]
    fn no_window_has_more_units_than_the_pace_allows(
        units in 1_u32..3_000, unit in 0_usize..4, ramp in prop_oneof![Just(0_u64), 1_u64..1_000],
        turns in turns(),
    ) {
        let pace: Rate = format!("{units}/{}", ["s", "m", "h", "d"][unit]).parse().unwrap();
        let plan = settings(None, &pace.to_string(), ramp, "");
        let mut now_us = 0_u64;
        let (mut timing, mut changes, mut changed) = (PlanTiming::default(), Vec::new(), 0);
        for turn in turns {
            now_us += turn.pause_us;
            if turn.resumes {
                timing.ramp_from = None;
            }
            let counts = PlanCounts { total: u64::MAX, changed, ..PlanCounts::default() };
            let now = Timestamp::from_microsecond(now_us as i64).unwrap();
            prop_assert_eq!(plan.timing_at(&timing, now), timing, "an executor takes over");
            match plan.next_step(&counts, &timing, now) {
                PlanStep::WaitUntil(next) => now_us = next.as_microsecond() as u64,
                PlanStep::Change(batch) => {
                    let done = batch.units.saturating_sub(turn.skips);
                    changes.push((now_us, u64::from(done)));
                    changed += u64::from(done);
                    // As a store keeps it.
                    let next = batch.next_at(done, now).as_microsecond();
                    let next_at = Some(Timestamp::from_microsecond(next).unwrap());
                    timing = PlanTiming { ramp_from: batch.ramp_from, next_at };
                }
                other => prop_assert!(false, "{:?}", other),
            }
        }
        let period = pace.period().as_micros() as u64;
        for (place, (from, _)) in changes.iter().enumerate() {
            let window = changes[place..].iter().take_while(|(at, _)| at - from < period);
            let total: u64 = window.map(|(_, units)| units).sum();
            prop_assert!(total <= u64::from(units), "{total} units in a period from {from}");
        }
    }

    // PLN-2
    #[test]
    fn the_canary_precedes_the_rest_whatever_happens(
        canary in 1_u64..50, outcomes in vec(0_u8..4, 1..300),
    ) {
        let plan = settings(Some(canary), "", 0, "50%");
        let mut counts = PlanCounts { total: 500, ..PlanCounts::default() };
        for outcome in outcomes {
            match plan.next_step(&counts, &PlanTiming::default(), START) {
                PlanStep::Change(batch) => {
                    let rest = counts.tried() + u64::from(batch.units) > canary;
                    prop_assert!(!rest || counts.ended() >= canary, "{counts:?}");
                    counts.changed += u64::from(batch.units);
                    counts.pending += u64::from(batch.units);
                }
                PlanStep::WaitForCanary => prop_assert!(counts.pending > 0),
                PlanStep::Abort(_) => prop_assert!(counts.failed() * 2 >= canary.min(10)),
                PlanStep::Complete => prop_assert_eq!(counts.rest(), 0),
                PlanStep::WaitUntil(_) => prop_assert!(false, "there is no pace"),
            }
            if counts.pending > 0 {
                counts.pending -= 1;
                match outcome {
                    0 => counts.same_cause += 1,
                    1 => counts.other_cause += 1,
                    2 => counts.recovered += 1,
                    // Others changed the unit.
                    _ => {}
                }
            }
        }
    }
}
