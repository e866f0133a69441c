//! Which failures are alike.

use redrive_core::Fingerprint;

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
    &["it can't be (code=7)", "it can't be (code=0xff)"],
    &[
        "ValueError: bad day (work.py:12 in fetch)\nstderr: fetching\nTraceback",
        "ValueError: bad day (work.py:14 in fetch)\nstderr: retrying",
        "ValueError: bad day (work.py:14 in fetch)",
    ],
];

// PIP-7
#[test]
fn messages_that_differ_in_numbers_ids_quotes_paths_or_hex_share_a_fingerprint() {
    for alike in ALIKE {
        for message in *alike {
            let (one, other) = (Fingerprint::of("1", alike[0]), Fingerprint::of("1", message));
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
            assert_ne!(Fingerprint::of("1", one), Fingerprint::of("1", other), "{one} | {other}");
        }
        assert_ne!(Fingerprint::of("1", one), Fingerprint::of("2", one), "{one}");
    }
}

#[test]
fn a_lone_quote_and_strange_text_are_taken_as_they_are() {
    for message in ["'", "it's", "\"open", "a'b'c", "é\"ü\"", "/", "\\", "-", "--7", "\n'\n'"] {
        assert_eq!(Fingerprint::of("1", message), Fingerprint::of("1", message));
    }
    assert_ne!(Fingerprint::of("1", "it's lost"), Fingerprint::of("1", "it's found"));
}
