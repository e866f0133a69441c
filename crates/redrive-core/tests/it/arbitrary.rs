//! Policies, histories and failures at random, for the laws that hold for all of them.

use std::time::Duration;

use jiff::Timestamp;
use proptest::{collection::vec, option, prelude::*};
use redrive_core::{
    Backoff, Class, Code, Failure, History, Jitter, JitterKey, JitterSeed, MAX_DURATION,
    MAX_MULTIPLIER, Policy, PolicySpec, Retriable, RunId, Unit,
};

/// The jitter of a run under the default seed.
pub(crate) fn jitter_of_run(id: i64) -> JitterKey {
    JitterKey::new(JitterSeed::default(), &Unit::Run(RunId(id)))
}

/// A duration any setting may have, every order of magnitude being as likely as another.
pub(crate) fn durations() -> impl Strategy<Value = Duration> {
    let longest = MAX_DURATION.as_nanos() as u64;
    prop_oneof![
        (0_u32..62).prop_flat_map(move |bits| 1..=(1_u64 << bits).min(longest)),
        Just(longest),
        (1..=MAX_DURATION.as_secs()).prop_map(|seconds| seconds * 1_000_000_000),
    ]
    .prop_map(Duration::from_nanos)
}

/// Any text at all: empty, NUL, escapes, unassigned code points.
pub(crate) fn texts(longest: usize) -> impl Strategy<Value = String> {
    vec(any::<char>(), 0..=longest).prop_map(String::from_iter)
}

pub(crate) fn timestamps() -> impl Strategy<Value = Timestamp> {
    let (first, last) = (Timestamp::MIN, Timestamp::MAX);
    prop_oneof![
        8 => (first.as_second()..=last.as_second())
            .prop_map(|second| Timestamp::from_second(second).unwrap()),
        1 => Just(first),
        1 => Just(last),
    ]
}

pub(crate) fn jitters() -> impl Strategy<Value = Jitter> {
    prop_oneof![
        Just(Jitter::None),
        durations().prop_map(Jitter::Absolute),
        (0.0..=1.0_f64)
            .prop_filter("a share above zero", |share| *share > 0.0)
            .prop_map(Jitter::Fraction),
        Just(Jitter::Full),
    ]
}

pub(crate) fn multipliers() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(1.0),
        Just(1.0 + f64::EPSILON),
        Just(2.0),
        Just(MAX_MULTIPLIER),
        1.0..1.01_f64,
        1.0..=MAX_MULTIPLIER,
    ]
}

fn codes() -> impl Strategy<Value = Code> {
    prop_oneof![
        any::<u32>().prop_map(Code::Number),
        prop::sample::select(vec![404_u32, 429, 503, 65, 75]).prop_map(Code::Number),
        "[a-z_]{1,12}".prop_map(Code::Name),
    ]
}

pub(crate) fn retriables() -> impl Strategy<Value = Retriable> {
    prop_oneof![
        Just(Retriable::ByClass),
        Just(Retriable::All),
        Just(Retriable::None),
        vec(codes(), 0..4).prop_map(Retriable::Codes),
    ]
}

/// Every policy that can be built.
pub(crate) fn policies() -> impl Strategy<Value = Policy> {
    let waits = (
        prop::sample::select(Backoff::ALL.to_vec()),
        (durations(), durations()),
        multipliers(),
        jitters(),
    );
    let limits = (option::of(1_u32..), option::of(durations()), durations(), 1_u32.., retriables());
    (waits, limits).prop_map(|((backoff, (a, b), multiplier, jitter), limits)| {
        let (max_attempts, max_age, max_hint, max_deferrals, retriable) = limits;
        Policy::new(PolicySpec {
            max_attempts,
            max_age,
            backoff,
            base: a.min(b),
            multiplier,
            cap: a.max(b),
            jitter,
            retriable,
            max_hint,
            max_deferrals,
            max_lost: None,
            max_logical_age: None,
            rules: Vec::new(),
        })
        .unwrap()
    })
}

pub(crate) fn classes() -> impl Strategy<Value = Class> {
    prop_oneof![
        Just(Class::Final),
        Just(Class::Retryable),
        option::of(prop_oneof![durations(), Just(Duration::ZERO), Just(Duration::MAX)])
            .prop_map(|retry_after| Class::RateLimited { retry_after }),
    ]
}

pub(crate) fn failures() -> impl Strategy<Value = Failure> {
    prop_oneof![
        (option::of(classes()), codes())
            .prop_map(|(class, code)| Failure::reported(class, code, "reported")),
        (100_u16..600, option::of(durations()))
            .prop_map(|(status, hint)| Failure::http(status, hint, "answered")),
        (1_u8..).prop_map(|code| Failure::exit(code, "exited")),
    ]
}

pub(crate) fn histories() -> impl Strategy<Value = History> {
    let numbers = || prop_oneof![0_u32..10, any::<u32>(), Just(u32::MAX)];
    (numbers(), numbers(), option::of(timestamps())).prop_map(
        |(counted, deferrals, first_attempt_at)| History {
            counted,
            deferrals,
            lost: 0,
            first_attempt_at,
            paused: std::time::Duration::ZERO,
            is_probe: false,
        },
    )
}
