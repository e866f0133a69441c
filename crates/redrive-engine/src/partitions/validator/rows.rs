//! Looking at every row of a payload as it passes by.

use std::{fmt, sync::Arc};

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::schema::RowSchema;

/// The longest row, in bytes. Whoever reads a row needs it in memory.
pub const MAX_ROW_BYTES: usize = 16 * 1024 * 1024;

/// Looks at rows, and keeps the first that is bad of each kind.
#[derive(Debug, Default)]
pub(super) struct Rows {
    schema: Option<Arc<RowSchema>>,
    /// How many lines have ended.
    lines: u64,
    /// The beginning of a line whose end has not come yet.
    begun: Vec<u8>,
    bad: Option<String>,
    misfit: Option<String>,
}

impl Rows {
    pub(super) fn new(schema: Option<Arc<RowSchema>>) -> Self {
        Self { schema, ..Self::default() }
    }

    /// How many bytes there are of a line whose end has not come yet.
    pub(super) fn unfinished(&self) -> usize {
        self.begun.len()
    }

    /// Takes the next bytes, in pieces of any size.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            // Nothing that comes after a bad row can change what is said.
            if self.bad.is_some() {
                return;
            }
            match piece.strip_suffix(b"\n") {
                Some(end) if self.begun.is_empty() => self.look_at(end),
                Some(end) => {
                    let mut line = std::mem::take(&mut self.begun);
                    line.extend_from_slice(end);
                    self.look_at(&line);
                    line.clear();
                    self.begun = line;
                }
                None => self.begin(piece),
            }
        }
    }

    fn begin(&mut self, piece: &[u8]) {
        self.begun.extend_from_slice(piece);
        if self.begun.len() > MAX_ROW_BYTES {
            self.begun = Vec::new();
            self.bad = Some(too_long(self.lines + 1));
        }
    }

    fn look_at(&mut self, line: &[u8]) {
        self.lines += 1;
        let number = self.lines;
        if line.len() > MAX_ROW_BYTES {
            self.bad = Some(too_long(number));
            return;
        }
        // Once a row does not fit, only a bad one can still change what is said.
        let Some(schema) = self.schema.as_ref().filter(|_| self.misfit.is_none()) else {
            let row: Result<Object, _> = serde_json::from_slice(line);
            self.bad = row.err().map(|error| not_an_object(number, line, &error));
            return;
        };
        match serde_json::from_slice::<Map<String, Value>>(line) {
            Ok(row) => {
                self.misfit =
                    schema.misfit(&Value::Object(row)).map(|why| format!("line {number}: {why}"));
            }
            Err(error) => self.bad = Some(not_an_object(number, line, &error)),
        }
    }

    /// The first line that is no JSON object.
    pub(super) fn bad(&self) -> Option<&str> {
        self.bad.as_deref()
    }

    /// The first row that does not fit the schema.
    pub(super) fn misfit(&self) -> Option<&str> {
        self.misfit.as_deref()
    }
}

fn too_long(number: u64) -> String {
    format!("line {number} is longer than {MAX_ROW_BYTES} bytes")
}

/// Says where and why, and nothing of the row itself: what it holds is not for logs.
fn not_an_object(number: u64, line: &[u8], error: &serde_json::Error) -> String {
    if line.trim_ascii().is_empty() {
        return format!("line {number} is empty");
    }
    let place = format!(" at line {} column {}", error.line(), error.column());
    let why = error.to_string();
    let why = why.strip_suffix(&place).unwrap_or(&why);
    let why = if error.is_data() { "it is something else" } else { why };
    format!("line {number} is not a JSON object: {why} (column {})", error.column())
}

/// Any JSON object, looked at and not kept: as strict as reading it, its depth and its numbers too.
struct Object;

/// Any JSON value, likewise.
struct Anything;

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Anything).map(|_| Self)
    }
}

impl<'de> Deserialize<'de> for Anything {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Anything {
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
