//! Fingerprints group similar failures.

use std::{fmt, str::FromStr};

use xxhash_rust::xxh3::xxh3_64;

use crate::{Class, headline, message::without_stderr};

/// Groups failures of one class and code whose messages differ only in numbers, ids, quotations, paths and hexadecimal
/// digits, or in the stderr after the message. Of a crash report, the error and its place count. Fingerprints are stored:
/// they are the same on every host and in every version.
///
/// ```
/// use redrive_core::{Class, Fingerprint};
///
/// let of = |code, message| Fingerprint::of(Class::Retryable, code, message);
/// let a = of("503", "host 10.0.0.7 timed out after 31 s");
/// assert_eq!(a, of("503", "host 10.0.0.118 timed out after 7.5 s"));
/// assert_ne!(a, of("504", "host 10.0.0.7 timed out after 31 s"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(u64);

impl Fingerprint {
    pub fn of(class: Class, code: &str, message: &str) -> Self {
        let message = without_stderr(message).trim();
        let extraction = message.strip_prefix(NO_RAW_PARTITION);
        let message = extraction.and_then(|rest| rest.strip_prefix(": ")).unwrap_or(message);
        let error = headline(message);
        let mut shape = format!("{}\n{code}\n", class.name());
        push_shape(&mut shape, error.as_deref().unwrap_or(message));
        Self(xxh3_64(shape.as_bytes()))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a fingerprint: a fingerprint has 16 hexadecimal digits; `redrive causes` shows them"
)]
pub struct InvalidFingerprint(pub String);

impl FromStr for Fingerprint {
    type Err = InvalidFingerprint;

    fn from_str(text: &str) -> Result<Self, InvalidFingerprint> {
        let digits = text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let number = u64::from_str_radix(text, 16).ok().filter(|_| digits);
        number.map(Self).ok_or_else(|| InvalidFingerprint(text.chars().take(80).collect()))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// How the message of a rejected partition begins if its extraction left nothing behind. The same failure of a run and of
/// a partition has one cause, so fingerprints leave it out.
pub const NO_RAW_PARTITION: &str = "no raw partition";

/// Replaces every part of a message that may differ.
const ANY: char = '#';

/// A hexadecimal word without a digit is an id from this length on; a shorter one may be English.
const MIN_HEX: usize = 8;

/// Writes the message with every part that may differ replaced.
fn push_shape(shape: &mut String, message: &str) {
    let (mut rest, mut begins) = (message, true);
    while let Some(c) = rest.chars().next() {
        let piece = match c {
            '"' | '\'' | '`' => quotation(rest, c),
            _ if begins => uuid(rest).or_else(|| path(rest)),
            _ => None,
        };
        begins = ends_a_path(c);
        if let Some(piece) = piece {
            push_any(shape);
            rest = rest.get(piece..).unwrap_or_default();
            continue;
        }
        let word = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
        if word == 0 {
            shape.push(c);
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
            continue;
        }
        let (word, after) = rest.split_at(word);
        if is_number(word) {
            push_any(shape);
        } else {
            shape.push_str(word);
        }
        // An apostrophe inside a word, as in "can't", does not start a quotation.
        let apostrophe = after.strip_prefix('\'').filter(|s| s.starts_with(char::is_alphanumeric));
        rest = match apostrophe {
            Some(after) => {
                shape.push('\'');
                after
            }
            None => after,
        };
    }
}

/// 10.0.0.7, 1,234, 12:30:01, -3 and a UUID are one number each.
fn push_any(shape: &mut String) {
    if shape.ends_with(['-', '+']) {
        let before = shape.get(..shape.len() - 1).and_then(|before| before.chars().last());
        if before.is_none_or(|c| c.is_whitespace() || "(=[{:,".contains(c)) {
            shape.pop();
        }
    }
    let joined = shape.strip_suffix(['.', ',', ':', '-', '_', '+', '/']).map(str::len);
    let joined = joined.filter(|end| shape.get(..*end).is_some_and(|s| s.ends_with(ANY)));
    if let Some(end) = joined {
        shape.truncate(end);
    }
    if !shape.ends_with(ANY) {
        shape.push(ANY);
    }
}

/// The length of the quotation that the text starts with, if the quotation ends on the same line.
fn quotation(text: &str, quote: char) -> Option<usize> {
    let inside = text.strip_prefix(quote)?;
    let end = inside.find([quote, '\n'])?;
    inside.get(end..)?.starts_with(quote).then_some(end + 2 * quote.len_utf8())
}

/// The length of the UUID that the text starts with. A group of a UUID may have no digit.
fn uuid(text: &str) -> Option<usize> {
    let groups: [&str; 5] = text.get(..36)?.split('-').collect::<Vec<_>>().try_into().ok()?;
    let hex = |group: &str| group.bytes().all(|b| b.is_ascii_hexdigit());
    (groups.map(str::len) == [8, 4, 4, 4, 12] && groups.into_iter().all(hex)).then_some(36)
}

/// The length of the path or address that the text starts with.
fn path(text: &str) -> Option<usize> {
    let word = text.get(..text.find(ends_a_path).unwrap_or(text.len()))?;
    let word = word.trim_end_matches(['.', ':', '!', '?']);
    let drive = word.get(1..3) == Some(":\\");
    let local = ["/", "./", "../", "~/", "\\\\"].iter().any(|start| word.starts_with(start));
    let slashes = word.matches(['/', '\\']).count();
    (word.len() > 1 && (drive || local || word.contains("://") || slashes > 1))
        .then_some(word.len())
}

fn ends_a_path(c: char) -> bool {
    c.is_whitespace() || "\"'`,;=()[]{}<>|".contains(c)
}

fn is_number(word: &str) -> bool {
    let hex = word.len() >= MIN_HEX && word.bytes().all(|b| b.is_ascii_hexdigit());
    hex || word.chars().any(|c| c.is_numeric())
}
