//! What each parser owes to whoever hands it bytes, whatever they are.
//!
//! A target takes bytes and panics if the parser does wrong by them: what is read comes back as it was
//! when it is written and read again; what is refused is refused in one clear line of bounded length; the
//! same bytes mean the same twice. `scripts/fuzz` feeds them by coverage, `tests/it/fuzz.rs` by mutation of
//! the same corpora.

pub mod configuration;
pub mod json_lines;
pub mod keys;
pub mod replies;
pub mod requests;
pub mod retry_after;

/// What a target is called, and what it checks.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 6] = [
    ("configuration", configuration::check),
    ("json_lines", json_lines::check),
    ("keys", keys::check),
    ("replies", replies::check),
    ("requests", requests::check),
    ("retry_after", retry_after::check),
];

/// A message that people can read: it says something, in one line, and cannot move a cursor.
fn clear(message: &str, most_chars: usize) {
    assert!(!message.trim().is_empty(), "a refusal says why");
    assert!(message.chars().count() <= most_chars, "too long: {message:?}");
    assert!(!message.chars().any(char::is_control), "not printable: {message:?}");
}
