//! `metadata.json`, which describes a raw partition and seals it.

use jiff::Timestamp;
use redrive_core::{PartitionKey, PartitionRunId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::error::Damage;

pub(super) const MAX_METADATA_BYTES: usize = 1024 * 1024;

/// The content of `metadata.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct RawMetadata {
    pub key: PartitionKey,
    pub run_id: PartitionRunId,
    pub extracted_at: Timestamp,
    /// The name that the extractor gives to the shape of its rows.
    pub schema_version: Option<String>,
    pub record_count: u64,
    /// SHA-256 of the payload, in lower-case hexadecimal.
    pub sha256: String,
    /// Fields that the extractor added.
    pub extractor: Map<String, Value>,
}

/// The part of the metadata that comes from the extractor.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Extracted {
    pub extracted_at: Timestamp,
    /// The name that the extractor gives to the shape of its rows.
    pub schema_version: Option<String>,
    /// Fields that the extractor added. They are kept under `extractor`, apart from the fields of Redrive.
    pub extractor: Map<String, Value>,
}

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
        // Cannot fail: strings, numbers and maps with string keys always serialize.
        let mut bytes = serde_json::to_vec_pretty(&written).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// Parses the file of a run. The file must be about that run: a copied folder is not sealed.
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
            return Err(Damage::Metadata(format!("is of another run, {of}")));
        }
        Ok(metadata)
    }
}
