//! The `[terminal]` mark, with which operators end the retries of a partition (PAR-4, PAR-7).
//!
//! The mark is part of `error_message`, which extractors and validators also write. So a mark in
//! their text is defused before it is stored: only an operator's command can write a valid mark.

use std::borrow::Cow;

pub const TERMINAL_MARK: &str = "[terminal]";

/// Replaces a foreign mark. As long as the mark, so that a bounded text stays bounded.
const DEFUSED: &str = "(terminal)";

pub fn is_marked_terminal(message: Option<&str>) -> bool {
    message.is_some_and(|message| message.contains(TERMINAL_MARK))
}

/// Replaces every mark in foreign text.
///
/// ```
/// use redrive_core::defuse_terminal_mark;
///
/// assert_eq!(defuse_terminal_mark("[terminal] give up"), "(terminal) give up");
/// ```
pub fn defuse_terminal_mark(text: &str) -> Cow<'_, str> {
    if text.contains(TERMINAL_MARK) {
        Cow::Owned(text.replace(TERMINAL_MARK, DEFUSED))
    } else {
        Cow::Borrowed(text)
    }
}

/// Puts the mark in front of a message. A marked message stays unchanged.
pub fn mark_terminal(message: Option<&str>) -> String {
    match message {
        Some(marked) if marked.contains(TERMINAL_MARK) => marked.to_owned(),
        Some(plain) if !plain.is_empty() => format!("{TERMINAL_MARK} {plain}"),
        _ => TERMINAL_MARK.to_owned(),
    }
}

/// Removes every mark from a message; the inverse of [`mark_terminal`].
///
/// ```
/// use redrive_core::{clear_terminal, mark_terminal};
///
/// assert_eq!(clear_terminal(&mark_terminal(Some("no rows"))), "no rows");
/// ```
pub fn clear_terminal(message: &str) -> String {
    let mut cleared = message.to_owned();
    // Removing a mark can join the text around it to a new mark.
    while cleared.contains(TERMINAL_MARK) {
        let bare =
            cleared.strip_prefix(TERMINAL_MARK).map(|rest| rest.strip_prefix(' ').unwrap_or(rest));
        cleared = bare.map_or_else(|| cleared.replacen(TERMINAL_MARK, "", 1), str::to_owned);
    }
    cleared
}
