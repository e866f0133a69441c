//! Foreign text made safe to keep.

use proptest::{collection::vec, prelude::*};
use redrive_core::{Class, Failure, Fingerprint, MAX_MESSAGE_BYTES, Message, summary};

use crate::arbitrary::texts;

fn is_safe(c: char) -> bool {
    !c.is_control() || c == '\n' || c == '\t'
}

#[track_caller]
fn check(text: &str, cleaned: &str) {
    assert_eq!(Message::clean(text).as_str(), cleaned);
}

#[test]
fn what_a_terminal_would_obey_or_a_database_refuse_is_escaped() {
    check("red\x1b[31m", "red\\u{1b}[31m");
    check("nul\0", "nul\\u{0}");
    check("over\rwritten", "over\\u{d}written");
    check("bell\x07, delete\x7f", "bell\\u{7}, delete\\u{7f}");
    check("csi\u{9b}31m", "csi\\u{9b}31m");
    check("invoice\u{202e}fdp.exe", "invoice\\u{202e}fdp.exe");
    check("\u{61c}\u{200f}\u{2066}", "\\u{61c}\\u{200f}\\u{2066}");
}

#[test]
fn what_people_write_is_kept() {
    check("", "");
    check("line one\n\tline two", "line one\n\tline two");
    check("Zoë 東京 🚀", "Zoë 東京 🚀");
    check(r"C:\u{1b}", r"C:\u{1b}");
}

#[test]
fn bytes_that_are_not_text_become_the_replacement_character() {
    let message = Message::clean_bytes(b"caf\xe9 \xff\0");
    assert_eq!(message.as_str(), "caf\u{fffd} \u{fffd}\\u{0}");
}

#[test]
fn a_message_at_the_limit_is_whole_and_one_above_it_is_not() {
    let whole = "x".repeat(MAX_MESSAGE_BYTES);
    check(&whole, &whole);
    let cut = Message::clean(&"x".repeat(MAX_MESSAGE_BYTES + 1));
    assert!(cut.as_str().contains("bytes truncated"), "{cut}");
}

#[test]
fn ten_megabytes_keep_their_head_and_their_tail_and_say_what_is_missing() {
    let text = format!("first cause {} last words", "é\x1b".repeat(3_500_000));
    let message = Message::clean(&text);
    let kept = message.as_str();
    assert!(kept.len() <= MAX_MESSAGE_BYTES);
    assert!(kept.starts_with("first cause "));
    assert!(kept.ends_with(" last words"));
    let (head, rest) = kept.split_once("\n[… ").unwrap();
    let (missing, tail) = rest.split_once(" bytes truncated …]\n").unwrap();
    let original = |part: &str| part.replace("\\u{1b}", "\x1b").len();
    let missing: usize = missing.parse().unwrap();
    assert_eq!(original(head) + missing + original(tail), text.len());
}

#[test]
fn a_failure_cleans_its_message_itself() {
    assert_eq!(Failure::timeout("\0").message().as_str(), "\\u{0}");
    assert!(Failure::exit(1, "").message().is_empty());
}

// CAU-1
#[test]
fn the_summary_of_a_message_is_its_error_or_its_lines() {
    for (message, line) in [
        ("", ""),
        ("busy", "busy"),
        ("\n  busy\nstderr: a\nb", "busy"),
        ("not found\n\n <html>", "not found <html>"),
        (
            "Traceback (most recent call last):\n  File \"a.py\", line 3, in f\nKeyError: 7",
            "KeyError: 7 (a.py:3 in f)",
        ),
    ] {
        assert_eq!(summary(message), line, "{message}");
    }
}

#[test]
fn failures_that_differ_in_numbers_alone_share_a_fingerprint() {
    let timed_out = Fingerprint::of(Class::Retryable, "503", "host 10.0.0.7 timed out after 31 s");
    let alike = ["host 10.0.0.8 timed out after 7 s", "host 192.168.1.250 timed out after 1000 s"];
    for message in alike {
        assert_eq!(timed_out, Fingerprint::of(Class::Retryable, "503", message), "{message}");
    }
    assert_ne!(
        timed_out,
        Fingerprint::of(Class::Retryable, "504", "host 10.0.0.7 timed out after 31 s")
    );
    assert_ne!(
        timed_out,
        Fingerprint::of(Class::Retryable, "503", "host 10.0.0.7 hung up after 31 s")
    );
    assert_ne!(timed_out, Fingerprint::of(Class::Retryable, "503", ""));
    assert_eq!(timed_out.to_string().len(), 16);
}

/// Texts around the limit, where cutting begins.
fn long_texts() -> impl Strategy<Value = String> {
    let pieces =
        vec!["x", "é", "東", "🚀", "\0", "\x1b", "\n", "\u{202e}", "\u{10ffff}", "\\u{1b}"];
    (vec(prop::sample::select(pieces), 1..9), 0..2 * MAX_MESSAGE_BYTES).prop_map(
        |(pattern, length)| {
            let pattern = pattern.concat();
            pattern.repeat(1 + length / pattern.len())
        },
    )
}

proptest! {
    #[test]
    fn a_clean_message_is_bounded_and_safe_to_print(text in prop_oneof![texts(60), long_texts()]) {
        let message = Message::clean(&text);
        prop_assert!(message.as_str().len() <= MAX_MESSAGE_BYTES);
        prop_assert!(message.as_str().chars().all(is_safe));
    }

    #[test]
    fn cleaning_what_is_clean_changes_nothing(text in prop_oneof![texts(60), long_texts()]) {
        let once = Message::clean(&text);
        prop_assert_eq!(Message::clean(once.as_str()), once);
    }

    #[test]
    fn a_short_printable_text_is_kept_as_it_is(text in "[ -~\n\tä-ü]{0,80}") {
        let message = Message::clean(&text);
        prop_assert_eq!(message.as_str(), text);
    }

    #[test]
    fn no_bytes_make_cleaning_panic(bytes in vec(any::<u8>(), 0..200)) {
        prop_assert!(Message::clean_bytes(&bytes).as_str().chars().all(is_safe));
    }

    #[test]
    fn a_fingerprint_sees_no_digits(template in "[a-z :#/é]{0,20}", a in 0_u64.., b in 0_u64..) {
        let with = |number| Fingerprint::of(Class::Retryable, "1", &format!("{template} {number} {template}"));
        prop_assert_eq!(with(a), with(b));
    }
}
