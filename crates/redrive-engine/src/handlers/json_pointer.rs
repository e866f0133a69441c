//! JSON pointers (RFC 6901).

use std::{fmt, str::FromStr};

use serde_json::Value;

/// The location of a value in a JSON document: empty for the whole document, or `/` before every step. `~0`
/// stands for `~` and `~1` for `/`.
///
/// ```
/// use redrive_engine::JsonPointer;
///
/// let pointer: JsonPointer = "/choices/0/message".parse()?;
/// let answer = serde_json::json!({"choices": [{"message": "hello"}]});
/// assert_eq!(pointer.of(&answer), Some(&"hello".into()));
/// assert!("choices".parse::<JsonPointer>().is_err());
/// # Ok::<(), redrive_engine::InvalidPointer>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct JsonPointer(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a JSON pointer: write /key/0/key; ~1 stands for / and ~0 for ~")]
pub struct InvalidPointer(pub String);

impl JsonPointer {
    pub fn of<'a>(&self, document: &'a Value) -> Option<&'a Value> {
        document.pointer(&self.0)
    }

    /// Sets the value at this location. Missing objects are created; lists do not grow.
    pub fn put(&self, document: &mut Value, value: Value) -> Result<(), String> {
        let mut place = document;
        for step in self.0.split('/').skip(1) {
            let step = step.replace("~1", "/").replace("~0", "~");
            place = match place {
                Value::Null => {
                    *place = Value::Object(serde_json::Map::new());
                    child(place, step)
                }
                Value::Object(_) => child(place, step),
                Value::Array(list) => step.parse().ok().and_then(|n: usize| list.get_mut(n)),
                _ => None,
            }
            .ok_or_else(|| format!("cannot set {self} in the sample: a step of the path is neither an object nor an index of a list"))?;
        }
        *place = value;
        Ok(())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn child(object: &mut Value, key: String) -> Option<&mut Value> {
    Some(object.as_object_mut()?.entry(key).or_insert(Value::Null))
}

impl FromStr for JsonPointer {
    type Err = InvalidPointer;

    fn from_str(text: &str) -> Result<Self, InvalidPointer> {
        let begins_well = text.is_empty() || text.starts_with('/');
        if begins_well && text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1'])) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidPointer(text.chars().take(80).collect()))
        }
    }
}

impl fmt::Display for JsonPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
