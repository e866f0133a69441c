//! Builds raw sinks and validation rules from the configuration.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use redrive_engine::{InvalidSchema, RawError, RawSink, RowSchema, ValidationRules};

use crate::config::{RawUrl, ValidationConfig};

/// A JSON Schema file of a source that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaFileError {
    #[error("cannot read the schema {}", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is not a usable JSON Schema", path.display())]
    Invalid {
        path: PathBuf,
        #[source]
        source: InvalidSchema,
    },
}

/// Opens the raw sink at a URL. Credentials, regions and endpoints of object stores come from the
/// environment: `AWS_…` (with `AWS_ENDPOINT_URL` for other S3 servers), `GOOGLE_…`, `AZURE_…`.
pub fn open_raw_sink(url: &RawUrl) -> Result<RawSink, RawError> {
    match url {
        RawUrl::Folder(folder) => {
            // Programs that receive the path may have another working folder.
            let path = std::path::absolute(folder);
            Ok(RawSink::folder(path.unwrap_or_else(|_| folder.clone())))
        }
        RawUrl::Bucket { service, bucket, prefix } => {
            let environment = std::env::vars_os().filter_map(|(name, value)| {
                Some((name.into_string().ok()?, value.into_string().ok()?))
            });
            RawSink::bucket(*service, bucket, prefix, environment)
        }
    }
}

/// Builds the rules for rows, without the `judge`, which [`build_source`](crate::build_source) adds.
/// The path of the schema is resolved from `folder`.
pub fn build_validation_rules(
    validate: &ValidationConfig,
    folder: &Path,
) -> Result<ValidationRules, SchemaFileError> {
    let schema = validate.schema.as_ref().map(|name| read_schema(folder.join(name))).transpose()?;
    Ok(ValidationRules {
        min_rows: validate.min_rows,
        max_rows: validate.max_rows,
        schema: schema.map(Arc::new),
        handler: None,
    })
}

fn read_schema(path: PathBuf) -> Result<RowSchema, SchemaFileError> {
    match fs::read_to_string(&path) {
        Ok(text) => {
            RowSchema::parse(&text).map_err(|source| SchemaFileError::Invalid { path, source })
        }
        Err(source) => Err(SchemaFileError::Unreadable { path, source }),
    }
}
