//! A JSON Schema that every row must fit.

use std::fmt;

use jsonschema::ValidationError;
use serde_json::Value;

/// A schema, made ready once and used for every row. It stands for itself: a `$ref` to a file or the
/// network is refused.
pub struct RowSchema(jsonschema::Validator);

/// A text that is no schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a JSON Schema: {0}")]
pub struct InvalidSchema(String);

impl RowSchema {
    /// Reads a schema. Without `$schema` it is of draft 2020-12.
    ///
    /// ```
    /// use redrive_engine::RowSchema;
    ///
    /// assert!(RowSchema::parse(r#"{"required": ["clicks"]}"#).is_ok());
    /// assert!(RowSchema::parse(r#"{"type": "objekt"}"#).is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, InvalidSchema> {
        let schema: Value =
            serde_json::from_str(text).map_err(|error| InvalidSchema(error.to_string()))?;
        let at = |error: ValidationError<'_>| match error.instance_path().as_str() {
            "" => InvalidSchema(error.to_string()),
            path => InvalidSchema(format!("{path}: {error}")),
        };
        jsonschema::validator_for(&schema).map(Self).map_err(at)
    }

    /// Why a row does not fit, if it does not. Its values are not repeated: they are not for logs.
    pub(super) fn schema_error(&self, row: &Value) -> Option<String> {
        let error = self.0.validate(row).err()?;
        let (path, why) = (error.instance_path().as_str(), error.masked());
        Some(if path.is_empty() { format!("the row: {why}") } else { format!("{path}: {why}") })
    }
}

impl fmt::Debug for RowSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RowSchema")
    }
}
