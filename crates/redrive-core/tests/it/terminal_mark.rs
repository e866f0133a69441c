//! The mark that only operators write.

use proptest::prelude::*;
use redrive_core::{
    MAX_MESSAGE_BYTES, Message, TERMINAL_MARK, clear_terminal, defuse_terminal_mark,
    is_marked_terminal, mark_terminal,
};

use crate::arbitrary::texts;

/// Text that is likely to have marks, halves of marks, and marks around marks.
fn marked_texts() -> impl Strategy<Value = String> {
    let parts = vec!["[terminal]", "[term", "inal]", "[", "]", " ", "[[terminal]]", "no rows"];
    let part = prop_oneof![prop::sample::select(parts).prop_map(str::to_owned), texts(5)];
    prop::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
}

// PAR-4
#[test]
fn a_foreign_mark_is_defused_wherever_it_stands() {
    for (text, kept) in [
        ("[terminal]", "(terminal)"),
        ("a [terminal] b[terminal]", "a (terminal) b(terminal)"),
        ("[[terminal]]", "[(terminal)]"),
        ("[Terminal] [ terminal] terminal", "[Terminal] [ terminal] terminal"),
        ("", ""),
    ] {
        assert_eq!(defuse_terminal_mark(text), kept);
    }
}

// PAR-7
#[test]
fn marking_and_clearing_leave_the_message_as_it_was() {
    for message in ["no rows", "", " [term inal]", "two\nlines"] {
        let marked = mark_terminal(Some(message));
        assert!(is_marked_terminal(Some(&marked)));
        assert_eq!(mark_terminal(Some(&marked)), marked, "marked once");
        assert_eq!(clear_terminal(&marked), message);
    }
    assert_eq!(mark_terminal(None), TERMINAL_MARK);
    assert!(!is_marked_terminal(None));
}

proptest! {
    // PAR-4
    #[test]
    fn nothing_foreign_is_marked_once_it_is_cleaned_and_defused(text in marked_texts()) {
        let cleaned = Message::clean(&text);
        let kept = defuse_terminal_mark(cleaned.as_str());
        prop_assert!(!is_marked_terminal(Some(&kept)));
        prop_assert!(kept.len() <= MAX_MESSAGE_BYTES);
        prop_assert_eq!(defuse_terminal_mark(&kept), kept.as_ref());
    }

    // PAR-7
    #[test]
    fn a_cleared_message_is_not_marked(text in marked_texts()) {
        prop_assert!(!is_marked_terminal(Some(&clear_terminal(&text))));
        prop_assert!(is_marked_terminal(Some(&mark_terminal(Some(&text)))));
    }
}
