//! From what a configuration says of raw partitions to the sink that keeps them.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use redrive_engine::{InvalidSchema, RawError, RawSink, RowSchema, ValidationRules};

use crate::config::{RawUrl, ValidationConfig};

/// A file that should hold the schema of a source's rows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaFileError {
    /// It cannot be read.
    #[error("cannot read the schema {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It holds no schema.
    #[error("the schema {} cannot be used", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: InvalidSchema,
    },
}

/// The sink at a place. Credentials, regions and endpoints of object stores are in the environment:
/// `AWS_…` (with `AWS_ENDPOINT_URL` for other servers that speak S3), `GOOGLE_…`, `AZURE_…`.
pub fn open_raw_sink(url: &RawUrl) -> Result<RawSink, RawError> {
    match url {
        RawUrl::Folder(folder) => {
            // Programs that are told the path have other working folders.
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

/// What a source asks of its rows; its handler is not part of it. The schema's path counts from
/// `folder`, the folder of the configuration.
pub fn build_validation_rules(
    validate: &ValidationConfig,
    folder: &Path,
) -> Result<ValidationRules, SchemaFileError> {
    let schema = validate.schema.as_ref().map(|name| read_schema(folder.join(name))).transpose()?;
    Ok(ValidationRules {
        min_rows: validate.min_rows,
        max_rows: validate.max_rows,
        schema: schema.map(Arc::new),
        judge: None,
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
