//! All fields of a record as lines, in the order of its JSON.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// The most characters of a value in a table; JSON formats print all.
const MAX_CHARS: usize = 2_000;

/// Names and values as texts: strings as they are, other values as JSON, null as nothing.
pub(super) fn fields(record: &impl Serialize) -> serde_json::Result<Vec<(String, String)>> {
    let Fields(fields) = serde_json::from_str(&serde_json::to_string(record)?)?;
    fields.into_iter().map(|(name, value)| Ok((name, text(&value)?))).collect()
}

fn text(value: &RawValue) -> serde_json::Result<String> {
    let text = match value.get() {
        "null" => String::new(),
        string if string.starts_with('"') => serde_json::from_str(string)?,
        other => other.to_owned(),
    };
    Ok(match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    })
}

struct Fields(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Fields(fields))
    }
}
