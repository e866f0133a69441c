//! Which failures are alike.

use redrive_core::{Class, Fingerprint};

fn of(code: &str, message: &str) -> Fingerprint {
    Fingerprint::of(Class::Retryable, code, message)
}

/// Each line holds messages that are one cause.
const ALIKE: &[&[&str]] = &[
    &["took 31 s", "took 7 s", "took 7.5 s", "took 1,204 s", "took -3 s"],
    &["at 12:30:01 it broke", "at 9:05 it broke"],
    &[
        "no user 0b0e9d2c-1111-4222-8333-444455556666",
        "no user deadbeef-cafe-babe-feed-abcdefabcdef",
        "no user 42",
    ],
    &["blob deadbeefcafe is gone", "blob 00ff00ff00ff is gone"],
    &["no field \"name\"", "no field \"age of the owner\"", "no field 'x'", "no field `y`"],
    &[
        "cannot open /var/lib/x.db: gone",
        "cannot open ./y: gone",
        "cannot open ../../z/a.txt: gone",
        "cannot open https://example.org/a?b: gone",
        "cannot open C:\\data\\x.csv: gone",
    ],
    // Of a run, and of a partition whose extraction failed.
    &["the key was revoked", "no raw partition: the key was revoked", " the key was revoked\n"],
    &["it can't be (code=7)", "it can't be (code=0xff)"],
    &[
        "ValueError: bad day (work.py:12 in fetch)\nstderr: fetching\nTraceback",
        "ValueError: bad day (work.py:14 in fetch)\nstderr: retrying",
        "ValueError: bad day (work.py:14 in fetch)",
    ],
];

// PIP-7, CAU-1
#[test]
fn messages_that_differ_in_numbers_ids_quotes_paths_or_hex_share_a_fingerprint() {
    for alike in ALIKE {
        for message in *alike {
            let (one, other) = (of("1", alike[0]), of("1", message));
            assert_eq!(one, other, "{} | {message}", alike[0]);
        }
    }
}

// PIP-7
#[test]
fn messages_that_say_different_things_do_not() {
    let all: Vec<&str> = ALIKE.iter().map(|alike| alike[0]).collect();
    let others = ["took a while", "no user", "it can't be", "it cannot be", "blob is gone", ""];
    let all: Vec<&str> = all.into_iter().chain(others).collect();
    for (place, one) in all.iter().enumerate() {
        for other in &all[place + 1..] {
            assert_ne!(of("1", one), of("1", other), "{one} | {other}");
        }
        assert_ne!(of("1", one), of("2", one), "{one}");
    }
}

#[test]
fn a_lone_quote_and_strange_text_are_taken_as_they_are() {
    for message in ["'", "it's", "\"open", "a'b'c", "é\"ü\"", "/", "\\", "-", "--7", "\n'\n'"] {
        assert_eq!(of("1", message), of("1", message));
    }
    assert_ne!(of("1", "it's lost"), of("1", "it's found"));
}

/// Fingerprints that stores have: another version must compute the same.
const PINNED: &[(Class, &str, &str, &str)] = &[
    (Class::Final, "", "", "90bdcc9dee0ee467"),
    (Class::Final, "422", "field \"age\" is missing", "74475d88fedf4fb8"),
    (Class::Retryable, "503", "host 10.0.0.7 timed out after 31 s", "68af3934cc71cda7"),
    (
        Class::Retryable,
        "1",
        "Zoë: 東京 /var/x.db, id 0b0e9d2c-1111-4222-8333-444455556666",
        "9c9ba87b069cc5a8",
    ),
    (Class::RateLimited { retry_after: None }, "429", "slow down", "7e8218094d73f12a"),
    (Class::Retryable, "error", TRACEBACK, "dd6e3a0b2c730cca"),
    (Class::Retryable, "error", JAVA, "c351cdd84ff4152a"),
    (Class::Retryable, "101", RUST, "42d339f2434d056a"),
];

const TRACEBACK: &str = r#"Traceback (most recent call last):
  File "/app/work.py", line 12, in fetch
    raise ValueError("bad day 3")
ValueError: bad day 3"#;

const JAVA: &str = "java.lang.RuntimeException: outer\n\tat Work.main(Work.java:5)\n\
    Caused by: java.lang.IllegalStateException: bad day\n\tat Work.fetch(Work.java:12)";

const RUST: &str =
    "thread 'main' panicked at src/main.rs:4:5:\nbad day\nnote: run with `RUST_BACKTRACE=1`";

// CAU-1
#[test]
fn a_fingerprint_is_the_same_in_every_version() {
    let now = |(class, code, message, _): &(Class, &str, &str, &str)| {
        Fingerprint::of(*class, code, message).to_string()
    };
    let pinned: Vec<&str> = PINNED.iter().map(|pinned| pinned.3).collect();
    assert_eq!(PINNED.iter().map(now).collect::<Vec<_>>(), pinned);
}

// CAU-1
#[test]
fn a_class_a_code_and_a_normalised_message_make_a_cause() {
    let causes = [
        of("1", "bad day 3"),
        Fingerprint::of(Class::Final, "1", "bad day 3"),
        of("2", "bad day 3"),
        of("1", "bad night 3"),
    ];
    for (place, cause) in causes.iter().enumerate() {
        assert!(!causes[place + 1..].contains(cause), "{place}");
    }
    assert_eq!(causes[0], of("1", "bad day 12"));
}

// CAU-1
#[test]
fn of_a_crash_report_the_error_counts_and_not_its_beginning() {
    let alike = TRACEBACK.replace("line 12", "line 14").replace("day 3", "day 7");
    assert_eq!(of("error", TRACEBACK), of("error", &alike));
    let other = TRACEBACK.replace("ValueError", "KeyError");
    assert_ne!(of("error", TRACEBACK), of("error", &other));
}
