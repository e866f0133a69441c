//! `metadata.json`: what a raw partition says of itself, and what seals it.

use jiff::Timestamp;
use redrive_core::{PartitionKey, PartitionRunId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::error::Damage;

/// The longest metadata, in bytes.
pub(super) const MAX_METADATA_BYTES: usize = 1024 * 1024;

/// What a sealed raw partition says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct RawMetadata {
    /// Whose run it is.
    pub key: PartitionKey,
    /// The run.
    pub run_id: PartitionRunId,
    /// When it was extracted.
    pub extracted_at: Timestamp,
    /// What the extractor calls the shape of its rows.
    pub schema_version: Option<String>,
    /// How many rows it has.
    pub record_count: u64,
    /// SHA-256 of the payload, in lower-case hexadecimal.
    pub sha256: String,
    /// The extractor's own fields.
    pub extractor: Map<String, Value>,
}

/// What the extractor says of what it wrote; the writer knows the rest.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Extracted {
    /// When it was extracted.
    pub extracted_at: Timestamp,
    /// What the extractor calls the shape of its rows.
    pub schema_version: Option<String>,
    /// Its own fields; they stand under `extractor`, so that none of them is taken for one of ours.
    pub extractor: Map<String, Value>,
}

/// The file.
#[derive(Serialize, Deserialize)]
struct MetadataFile {
    source: String,
    customer_id: String,
    query_name: String,
    logical_date: String,
    run_id: String,
    extracted_at: String,
    schema_version: Option<String>,
    record_count: u64,
    sha256: String,
    #[serde(default)]
    extractor: Map<String, Value>,
}

impl RawMetadata {
    /// The bytes of the file.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let written = MetadataFile {
            source: self.key.source().to_owned(),
            customer_id: self.key.customer_id().to_owned(),
            query_name: self.key.query_name().to_owned(),
            logical_date: self.key.logical_date().to_string(),
            run_id: self.run_id.to_string(),
            extracted_at: self.extracted_at.to_string(),
            schema_version: self.schema_version.clone(),
            record_count: self.record_count,
            sha256: self.sha256.clone(),
            extractor: self.extractor.clone(),
        };
        // Texts, numbers and maps with text keys always serialize.
        let mut bytes = serde_json::to_vec_pretty(&written).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// Reads the file of a run. It must be of that run: a folder that was copied seals nothing.
    pub(super) fn parse(
        bytes: &[u8],
        key: &PartitionKey,
        run_id: &PartitionRunId,
    ) -> Result<Self, Damage> {
        if bytes.len() > MAX_METADATA_BYTES {
            return Err(Damage::Metadata(format!("is longer than {MAX_METADATA_BYTES} bytes")));
        }
        let unreadable = |why: String| Damage::Metadata(format!("cannot be read: {why}"));
        let written: MetadataFile =
            serde_json::from_slice(bytes).map_err(|error| unreadable(error.to_string()))?;
        let invalid = |error: redrive_core::InvalidUnit| unreadable(error.to_string());
        let metadata = Self {
            key: PartitionKey::new(
                &written.source,
                &written.customer_id,
                &written.query_name,
                written.logical_date.parse().map_err(invalid)?,
            )
            .map_err(invalid)?,
            run_id: written.run_id.parse().map_err(invalid)?,
            extracted_at: written.extracted_at.parse().map_err(|_| {
                unreadable(format!("extracted_at {:?} is not a time", written.extracted_at))
            })?,
            schema_version: written.schema_version,
            record_count: written.record_count,
            sha256: written.sha256,
            extractor: written.extractor,
        };
        if (&metadata.key, &metadata.run_id) != (key, run_id) {
            let of = format!("{} {}", metadata.key, metadata.run_id);
            return Err(Damage::Metadata(format!("is that of another run, {of}")));
        }
        Ok(metadata)
    }
}
