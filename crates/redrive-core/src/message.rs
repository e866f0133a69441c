//! Cleans text that comes from handlers, servers and other programs.
//!
//! A handler may print ten megabytes, NUL, escape sequences or invalid UTF-8. A database rejects
//! some of that text, and a terminal executes the rest; a rejected message would leave a failed
//! attempt neither retried nor dead. So every message is cleaned and bounded once, here, before it
//! is stored or shown.

use std::{borrow::Cow, fmt};

use crate::headline;

/// The longest stored message, in bytes. A longer message keeps its head and its tail.
pub const MAX_MESSAGE_BYTES: usize = 8 * 1024;

/// Separates what a message says from the stderr of a program, which is context.
pub const STDERR_MARK: &str = "\nstderr: ";

/// Space for the line that says how much was cut.
const MAX_MARK_BYTES: usize = 64;

/// A message that is safe to store and to print: no control characters except newline and tab, at
/// most [`MAX_MESSAGE_BYTES`] long.
///
/// ```
/// use redrive_core::Message;
///
/// assert_eq!(Message::clean("red\x1b[31m\0").as_str(), "red\\u{1b}[31m\\u{0}");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Message(String);

impl Message {
    /// Cleans and bounds a text.
    pub fn clean(text: &str) -> Self {
        if text.len() <= MAX_MESSAGE_BYTES && !text.chars().any(Self::must_escape) {
            return Self(text.to_owned());
        }
        let (whole, taken) = escape(text.chars(), MAX_MESSAGE_BYTES);
        if taken == text.len() {
            return Self(whole.concat());
        }
        let half = (MAX_MESSAGE_BYTES - MAX_MARK_BYTES) / 2;
        let (head, head_taken) = escape(text.chars(), half);
        let (mut tail, tail_taken) = escape(text.chars().rev(), half);
        tail.reverse();
        let cut = text.len() - head_taken - tail_taken;
        Self(format!("{}\n[… {cut} bytes truncated …]\n{}", head.concat(), tail.concat()))
    }

    /// Cleans and bounds bytes; invalid UTF-8 becomes the replacement character.
    pub fn clean_bytes(bytes: &[u8]) -> Self {
        Self::clean(&String::from_utf8_lossy(bytes))
    }

    /// Whether a character could change how the text around it is displayed: control characters except line
    /// breaks and tabs, and marks of the writing direction.
    pub fn must_escape(c: char) -> bool {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a message says in one line: the error of a crash report, or else its lines.
pub fn summary(message: &str) -> Cow<'_, str> {
    let message = without_stderr(message).trim();
    match headline(message) {
        Some(error) => error.into(),
        None if !message.contains('\n') => message.into(),
        None => {
            let lines = message.lines().map(str::trim).filter(|line| !line.is_empty());
            lines.collect::<Vec<_>>().join(" ").into()
        }
    }
}

pub(crate) fn without_stderr(message: &str) -> &str {
    message.split_once(STDERR_MARK).map_or(message, |(says, _)| says)
}

/// Escapes characters until `budget` bytes are filled. Returns the pieces in input order, and the
/// number of input bytes they represent. The budget bounds the cost of a huge text.
fn escape(chars: impl Iterator<Item = char>, budget: usize) -> (Vec<String>, usize) {
    let (mut pieces, mut filled, mut taken) = (Vec::new(), 0, 0);
    for c in chars {
        let piece =
            if Message::must_escape(c) { c.escape_unicode().to_string() } else { c.to_string() };
        if filled + piece.len() > budget {
            break;
        }
        filled += piece.len();
        taken += c.len_utf8();
        pieces.push(piece);
    }
    (pieces, taken)
}
