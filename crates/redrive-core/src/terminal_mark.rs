//! The mark by which operators end the retrying of a partition (PAR-4, PAR-7).
//!
//! The mark is part of `error_message`, where extractors and validators write too. So whatever comes
//! from them is defused first: only an operator's command can write the real thing.

use std::borrow::Cow;

/// What a marked message contains.
pub const TERMINAL_MARK: &str = "[terminal]";

/// What a foreign mark becomes; as long as the mark, so that bounded text stays bounded.
const DEFUSED: &str = "(terminal)";

/// Whether an operator has marked a message.
pub fn is_marked_terminal(message: Option<&str>) -> bool {
    message.is_some_and(|message| message.contains(TERMINAL_MARK))
}

/// Foreign text without the mark.
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

/// A message with the mark in front. One that has it stays as it is.
pub fn mark_terminal(message: Option<&str>) -> String {
    match message {
        Some(marked) if marked.contains(TERMINAL_MARK) => marked.to_owned(),
        Some(plain) if !plain.is_empty() => format!("{TERMINAL_MARK} {plain}"),
        _ => TERMINAL_MARK.to_owned(),
    }
}

/// A message without any mark: what [`mark_terminal`] was given.
///
/// ```
/// use redrive_core::{clear_terminal, mark_terminal};
///
/// assert_eq!(clear_terminal(&mark_terminal(Some("no rows"))), "no rows");
/// ```
pub fn clear_terminal(message: &str) -> String {
    let mut cleared = message.to_owned();
    // Taking a mark out of a text can join what was around it to another one.
    while cleared.contains(TERMINAL_MARK) {
        let bare =
            cleared.strip_prefix(TERMINAL_MARK).map(|rest| rest.strip_prefix(' ').unwrap_or(rest));
        cleared = bare.map_or_else(|| cleared.replacen(TERMINAL_MARK, "", 1), str::to_owned);
    }
    cleared
}
