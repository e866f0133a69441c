//! Texts that operators write down: notes and tickets.

use redrive_core::Message;

/// The longest note and the longest ticket, in characters.
pub const MAX_NOTE_CHARS: usize = 2_000;
pub const MAX_TICKET_CHARS: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the {what} has {chars} characters, and may have {max}")]
pub struct TextTooLong {
    pub what: &'static str,
    pub chars: usize,
    pub max: usize,
}

/// Trims and cleans a text. Browsers send line ends as CRLF; they are stored as line feeds.
pub fn operator_text(what: &'static str, text: &str, max: usize) -> Result<String, TextTooLong> {
    let given = text.trim().replace("\r\n", "\n").replace('\r', "\n");
    // Cleaning shortens a huge text and lengthens one with control characters.
    let cleaned = Message::clean(&given).to_string();
    let chars = given.chars().count().max(cleaned.chars().count());
    if chars > max { Err(TextTooLong { what, chars, max }) } else { Ok(cleaned) }
}
