//! Cuts values out of a JSON text without parsing them, so that no number loses a digit.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::value::RawValue;

use crate::handlers::json_pointer::JsonPointer;

pub(super) fn part<'a>(text: &'a str, pointer: &JsonPointer) -> Option<&'a RawValue> {
    let mut part: &RawValue = serde_json::from_str(text).ok()?;
    for step in pointer.as_str().split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        part = match part.get().as_bytes().first()? {
            b'{' => {
                let object: BTreeMap<Cow<'a, str>, &'a RawValue> =
                    serde_json::from_str(part.get()).ok()?;
                object.get(step.as_str()).copied()?
            }
            b'[' => items(part)?.get(step.parse::<usize>().ok()?).copied()?,
            _ => return None,
        };
    }
    Some(part)
}

pub(super) fn items(list: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(list.get()).ok()
}

/// Appends a value as one line. A line break can only be between tokens: in strings it is escaped.
pub(super) fn add_line(value: &RawValue, lines: &mut Vec<u8>) {
    let flat = |byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte };
    lines.extend(value.get().bytes().map(flat));
    lines.push(b'\n');
}
