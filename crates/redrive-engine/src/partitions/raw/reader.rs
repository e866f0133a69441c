//! Reads a sealed run and verifies its hash.

use bytes::Bytes;

use super::{
    error::{Damage, RawError},
    folder::FolderReader,
    metadata::RawMetadata,
    objects::ObjectReader,
    payload_digest::PayloadDigest,
};

/// Reads the payload of a sealed run.
///
/// The hash and the record count are compared with the metadata at the end of the payload, so the last call
/// fails for a payload that was changed or truncated.
pub struct RawReader {
    metadata: RawMetadata,
    place: String,
    digest: PayloadDigest,
    from: ReaderBackend,
}

pub(super) enum ReaderBackend {
    Folder(FolderReader),
    Objects(ObjectReader),
    Ended,
}

impl RawReader {
    pub(super) fn new(metadata: RawMetadata, place: String, from: ReaderBackend) -> Self {
        Self { metadata, place, digest: PayloadDigest::default(), from }
    }

    pub fn metadata(&self) -> &RawMetadata {
        &self.metadata
    }

    /// The next bytes, or `None` at the end. Chunks do not end at line breaks.
    pub async fn next(&mut self) -> Result<Option<Bytes>, RawError> {
        let chunk = match &mut self.from {
            ReaderBackend::Folder(reader) => reader.next().await?,
            ReaderBackend::Objects(reader) => reader.next().await?,
            ReaderBackend::Ended => return Ok(None),
        };
        if let Some(chunk) = &chunk {
            self.digest.add(chunk);
            return Ok(Some(chunk.clone()));
        }
        self.from = ReaderBackend::Ended;
        let digest = std::mem::take(&mut self.digest);
        let (said, found) = (self.metadata.record_count, digest.records());
        let damage = if digest.sha256() != self.metadata.sha256 {
            Damage::Hash
        } else if found != said {
            Damage::Count { said, found }
        } else {
            return Ok(None);
        };
        Err(RawError::Damaged { place: self.place.clone(), damage })
    }
}

impl std::fmt::Debug for RawReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawReader").field("place", &self.place).finish_non_exhaustive()
    }
}
