//! A JSON Schema that every row must match (feature `json-schema`).

use std::fmt;

use serde_json::Value;

/// A compiled JSON Schema. A `$ref` to a file or to the network is refused.
pub struct RowSchema(#[cfg(feature = "json-schema")] jsonschema::Validator);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a JSON Schema: {0}")]
pub struct InvalidSchema(String);

#[cfg(feature = "json-schema")]
impl RowSchema {
    /// Compiles a schema. Without `$schema`, draft 2020-12 applies. `format` is validated, which the newer drafts
    /// leave to the program; a format that is not standard is ignored.
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
        let at = |error: jsonschema::ValidationError<'_>| match error.instance_path().as_str() {
            "" => InvalidSchema(error.to_string()),
            path => InvalidSchema(format!("{path}: {error}")),
        };
        let options = jsonschema::options().should_validate_formats(true);
        options.build(&schema).map(Self).map_err(at)
    }

    /// Why a row does not match, if it does not. The message masks the values of the row: data must not reach
    /// logs.
    pub(super) fn schema_error(&self, row: &Value) -> Option<String> {
        let error = self.0.validate(row).err()?;
        let (path, why) = (error.instance_path().as_str(), error.masked());
        Some(if path.is_empty() { format!("the row: {why}") } else { format!("{path}: {why}") })
    }
}

#[cfg(not(feature = "json-schema"))]
impl RowSchema {
    /// Fails: this build has no JSON Schema. Enable the feature `json-schema`.
    pub fn parse(_: &str) -> Result<Self, InvalidSchema> {
        let why = "this program was built without the feature `json-schema`";
        Err(InvalidSchema(why.to_owned()))
    }

    pub(super) fn schema_error(&self, _: &Value) -> Option<String> {
        None
    }
}

impl fmt::Debug for RowSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RowSchema")
    }
}
