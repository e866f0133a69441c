//! The named policies.

use std::time::Duration;

use redrive_core::{Backoff, Jitter, Preset, Retriable};

/// Checks a preset against its row of the table, and its first waits in seconds.
#[track_caller]
fn check(
    name: &str,
    max_attempts: Option<u32>,
    (jitter, retriable): (Jitter, Retriable),
    waits: &[u64],
) {
    let preset = Preset::from_name(name).unwrap();
    assert_eq!(preset.name(), name);
    let policy = preset.policy();
    let spec = policy.spec();
    assert_eq!(spec, &preset.spec());
    assert_eq!(spec.max_attempts, max_attempts);
    assert_eq!(spec.max_age, None);
    assert_eq!(spec.backoff, Backoff::Exponential);
    assert_eq!((spec.jitter, &spec.retriable), (jitter, &retriable));
    assert_eq!(spec.max_hint, Duration::from_secs(24 * 3_600));
    assert_eq!(spec.max_deferrals, 100);
    for (n, wait) in (1..).zip(waits) {
        assert_eq!(policy.backoff_delay(n), Duration::from_secs(*wait), "n = {n}");
    }
    let last = waits.last().copied().map(Duration::from_secs);
    assert_eq!(last, Some(spec.cap), "the table runs up to the cap");
}

// POL-8
#[test]
fn every_preset_has_the_numbers_of_its_documentation() {
    let half_a_minute = Jitter::Absolute(Duration::from_secs(30));
    let minutes = |table: [u64; 8]| table.map(|minutes| minutes * 60);
    check(
        "partition",
        None,
        (half_a_minute, Retriable::All),
        &minutes([5, 10, 20, 40, 80, 160, 320, 360]),
    );
    check(
        "run",
        Some(9),
        (Jitter::None, Retriable::ByClass),
        &[60, 120, 240, 480, 960, 1_920, 3_600],
    );
    check("upload", Some(5), (Jitter::None, Retriable::All), &[2, 4, 8, 16, 32, 60]);
    check("stage", Some(3), (Jitter::Fraction(0.25), Retriable::All), &[1, 2, 4, 8, 16, 32, 60]);
}

// POL-8
#[test]
fn presets_are_listed_in_the_order_of_the_documentation() {
    let names = Preset::ALL.map(Preset::name);
    assert_eq!(names, ["partition", "run", "upload", "stage"]);
    assert_eq!(Preset::from_name("Run"), None);
    assert_eq!(Preset::from_name(""), None);
}
