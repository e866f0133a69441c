//! Makes the body of a request from the call.

use serde_json::{Map, Value};

use crate::handlers::json_pointer::JsonPointer;

/// The key of an object that stands for a value of the call.
const TAKE: &str = "$";

/// JSON in which `{"$": "/payload/prompt"}` stands for a value of the call.
///
/// ```
/// use redrive_engine::BodyTemplate;
/// use serde_json::json;
///
/// let template = BodyTemplate::new(json!({"input": {"$": "/payload/text"}, "n": 1}))?;
/// let call = json!({"payload": {"text": "hello"}});
/// assert_eq!(template.fill(&call), Ok(json!({"input": "hello", "n": 1})));
/// assert_eq!(template.fill(&json!({})).unwrap_err().as_str(), "/payload/text");
/// # Ok::<(), redrive_engine::InvalidTemplate>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct BodyTemplate {
    written: Value,
    shape: Shape,
}

/// A `{"$": …}` that is not a JSON pointer alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} stands for no value of the call: write {{\"$\": \"/a/b\"}}, a JSON pointer")]
pub struct InvalidTemplate(pub String);

#[derive(Debug, Clone, PartialEq)]
enum Shape {
    Fixed(Value),
    FromCall(JsonPointer),
    List(Vec<Shape>),
    Object(Vec<(String, Shape)>),
}

impl BodyTemplate {
    /// Fails unless every `{"$": …}` has a JSON pointer and no other key.
    pub fn new(written: Value) -> Result<Self, InvalidTemplate> {
        let shape = Shape::of(&written)?;
        Ok(Self { written, shape })
    }

    pub fn as_json(&self) -> &Value {
        &self.written
    }

    /// The body for a call. The error is the pointer to a value that the call does not have.
    pub fn fill(&self, call: &Value) -> Result<Value, &JsonPointer> {
        self.shape.fill(call)
    }
}

impl Shape {
    fn of(written: &Value) -> Result<Self, InvalidTemplate> {
        let wrong = || InvalidTemplate(written.to_string().chars().take(80).collect());
        match written {
            Value::Array(items) => {
                items.iter().map(Self::of).collect::<Result<_, _>>().map(Self::List)
            }
            Value::Object(entries) => match entries.get(TAKE) {
                None => {
                    let shaped =
                        |(key, value): (&String, &Value)| Ok((key.clone(), Self::of(value)?));
                    entries.iter().map(shaped).collect::<Result<_, _>>().map(Self::Object)
                }
                Some(Value::String(path)) if entries.len() == 1 => {
                    path.parse().map(Self::FromCall).map_err(|_| wrong())
                }
                Some(_) => Err(wrong()),
            },
            scalar => Ok(Self::Fixed(scalar.clone())),
        }
    }

    fn fill(&self, call: &Value) -> Result<Value, &JsonPointer> {
        match self {
            Self::Fixed(value) => Ok(value.clone()),
            Self::FromCall(pointer) => pointer.of(call).cloned().ok_or(pointer),
            Self::List(items) => {
                let filled: Result<_, _> = items.iter().map(|item| item.fill(call)).collect();
                filled.map(Value::Array)
            }
            Self::Object(entries) => {
                let mut object = Map::new();
                for (key, shape) in entries {
                    object.insert(key.clone(), shape.fill(call)?);
                }
                Ok(Value::Object(object))
            }
        }
    }
}
