//! Checks every row of a payload while the payload is read.

use std::{fmt, sync::Arc};

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::schema::RowSchema;
use crate::handlers::reply::excerpt;

/// The longest row, in bytes. A consumer holds at least one row in memory.
pub const MAX_ROW_BYTES: usize = 16 * 1024 * 1024;

/// Checks rows, and keeps the first problem of each kind.
#[derive(Debug, Default)]
pub(super) struct RowChecker {
    schema: Option<Arc<RowSchema>>,
    /// Complete lines so far.
    lines: u64,
    /// The start of a line whose end is not read yet.
    partial_line: Vec<u8>,
    bad_row: Option<String>,
    schema_error: Option<String>,
}

impl RowChecker {
    pub(super) fn new(schema: Option<Arc<RowSchema>>) -> Self {
        Self { schema, ..Self::default() }
    }

    /// Bytes held of a line whose end is not read yet.
    pub(super) fn partial_bytes(&self) -> usize {
        self.partial_line.len()
    }

    /// Checks the next bytes of the payload, in chunks of any size.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            // A bad row decides the verdict; later rows cannot change it.
            if self.bad_row.is_some() {
                return;
            }
            match piece.strip_suffix(b"\n") {
                Some(end) if self.partial_line.is_empty() => self.check_line(end),
                Some(end) => {
                    let mut line = std::mem::take(&mut self.partial_line);
                    line.extend_from_slice(end);
                    self.check_line(&line);
                    line.clear();
                    self.partial_line = line;
                }
                None => self.push_partial(piece),
            }
        }
    }

    fn push_partial(&mut self, piece: &[u8]) {
        self.partial_line.extend_from_slice(piece);
        if self.partial_line.len() > MAX_ROW_BYTES {
            self.partial_line = Vec::new();
            self.bad_row = Some(too_long(self.lines + 1));
        }
    }

    fn check_line(&mut self, line: &[u8]) {
        self.lines += 1;
        let number = self.lines;
        if line.len() > MAX_ROW_BYTES {
            self.bad_row = Some(too_long(number));
            return;
        }
        // After a schema error, only a row that is no JSON object can still change the verdict.
        let Some(schema) = self.schema.as_ref().filter(|_| self.schema_error.is_none()) else {
            let row: Result<IgnoredObject, _> = serde_json::from_slice(line);
            self.bad_row = row.err().map(|error| not_an_object(number, line, &error));
            return;
        };
        match serde_json::from_slice::<Map<String, Value>>(line) {
            Ok(row) => {
                self.schema_error = schema
                    .schema_error(&Value::Object(row))
                    .map(|why| format!("line {number}: {why}"));
            }
            Err(error) => self.bad_row = Some(not_an_object(number, line, &error)),
        }
    }

    /// The first line that is not a JSON object.
    pub(super) fn bad_row(&self) -> Option<&str> {
        self.bad_row.as_deref()
    }

    /// The first row that does not match the schema.
    pub(super) fn schema_error(&self) -> Option<&str> {
        self.schema_error.as_deref()
    }
}

fn too_long(number: u64) -> String {
    format!("line {number} is longer than {MAX_ROW_BYTES} bytes")
}

/// Names the line and the problem. A broken row is not shown: data must not reach logs. Any other line is a message, and is
/// shown.
fn not_an_object(number: u64, line: &[u8], error: &serde_json::Error) -> String {
    let trimmed = line.trim_ascii();
    if trimmed.is_empty() {
        return format!("line {number} is empty");
    }
    if !is_broken_row(trimmed) {
        let text = excerpt(trimmed);
        return format!(
            "line {number} is not a JSON object: {text:?} (stdout is for rows, write messages to stderr)"
        );
    }
    let suffix = format!(" at line {} column {}", error.line(), error.column());
    let why = error.to_string();
    let why = why.strip_suffix(&suffix).unwrap_or(&why);
    format!("line {number} is not a JSON object: {why} (column {})", error.column())
}

/// Whether a line begins as an object and is not valid up to its end, or has several objects.
fn is_broken_row(line: &[u8]) -> bool {
    let Some(fields) = line.strip_prefix(b"{") else { return false };
    let is_object = matches!(fields.trim_ascii_start().first(), None | Some(b'"' | b'}'));
    let mut objects = serde_json::Deserializer::from_slice(line).into_iter::<IgnoredObject>();
    let (first, second) = (objects.next(), objects.next());
    is_object && (!matches!(first, Some(Ok(_))) || matches!(second, Some(Ok(_))))
}

/// A JSON object that is parsed and dropped. Unlike `serde::de::IgnoredAny`, parsing enforces the same limits
/// of depth and numbers as parsing into a `Value`.
struct IgnoredObject;

struct IgnoredValue;

impl<'de> Deserialize<'de> for IgnoredObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(IgnoredValue).map(|_| Self)
    }
}

impl<'de> Deserialize<'de> for IgnoredValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for IgnoredValue {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Self, A::Error> {
        while values.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self, A::Error> {
        while fields.next_entry::<Self, Self>()?.is_some() {}
        Ok(self)
    }
}
