//! Writes one run.

use redrive_core::{PartitionKey, PartitionRunId};

use super::{
    error::RawError,
    folder::FolderWriter,
    metadata::{Extracted, MAX_METADATA_BYTES, RawMetadata},
    objects::ObjectWriter,
    payload_digest::PayloadDigest,
};

/// Writes the payload of one run and seals it.
///
/// Bytes are kept as they are; a missing newline at the end is added. Every line should be one JSON object,
/// which the validator checks. A writer that is dropped without a seal leaves no run.
#[derive(Debug)]
#[must_use = "a run that is not sealed does not exist"]
pub struct RawWriter {
    key: PartitionKey,
    run_id: PartitionRunId,
    place: String,
    digest: PayloadDigest,
    to: WriterBackend,
}

#[derive(Debug)]
pub(super) enum WriterBackend {
    Folder(FolderWriter),
    Objects(ObjectWriter),
}

impl RawWriter {
    pub(super) fn new(
        key: &PartitionKey,
        run_id: &PartitionRunId,
        place: String,
        to: WriterBackend,
    ) -> Self {
        Self {
            key: key.clone(),
            run_id: run_id.clone(),
            place,
            digest: PayloadDigest::default(),
            to,
        }
    }

    /// Appends bytes, in chunks of any size. After an error the run can only be aborted.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), RawError> {
        match &mut self.to {
            WriterBackend::Folder(writer) => writer.write(bytes).await?,
            WriterBackend::Objects(writer) => writer.write(bytes).await?,
        }
        self.digest.add(bytes);
        Ok(())
    }

    pub fn record_count(&self) -> u64 {
        self.digest.records()
    }

    /// Ends the payload and writes `metadata.json`. When this returns, the run survives a power loss and is
    /// never changed again. If this fails, the run is not sealed.
    pub async fn seal(mut self, extracted: Extracted) -> Result<RawMetadata, RawError> {
        if self.digest.is_open() {
            self.write(b"\n").await?;
        }
        let metadata = RawMetadata {
            key: self.key,
            run_id: self.run_id,
            extracted_at: extracted.extracted_at,
            schema_version: extracted.schema_version,
            record_count: self.digest.records(),
            sha256: self.digest.sha256(),
            extractor: extracted.extractor,
        };
        let bytes = metadata.to_bytes();
        if bytes.len() > MAX_METADATA_BYTES {
            let (place, bytes, allowed) = (self.place, bytes.len(), MAX_METADATA_BYTES);
            return Err(RawError::MetadataTooLong { place, bytes, allowed });
        }
        match self.to {
            WriterBackend::Folder(writer) => writer.seal(bytes).await?,
            WriterBackend::Objects(writer) => writer.seal(bytes).await?,
        }
        Ok(metadata)
    }

    /// Removes what was written.
    pub async fn abort(self) -> Result<(), RawError> {
        match self.to {
            WriterBackend::Folder(writer) => writer.abort().await,
            WriterBackend::Objects(writer) => writer.abort().await,
        }
    }
}
