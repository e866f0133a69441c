//! Reading one sealed run, and finding out whether it is what was sealed.

use bytes::Bytes;

use super::{
    error::{Damage, RawError},
    folder::FolderReader,
    metadata::RawMetadata,
    objects::ObjectReader,
    tally::Tally,
};

/// Reads the payload of a sealed run.
///
/// What was read is compared with the seal when the end is reached, so the last call fails for a payload
/// that was changed or cut.
pub struct RawReader {
    metadata: RawMetadata,
    place: String,
    tally: Tally,
    from: Origin,
}

/// Where it is read from.
pub(super) enum Origin {
    Folder(FolderReader),
    Objects(ObjectReader),
    /// The end was reached.
    Nowhere,
}

impl RawReader {
    pub(super) fn new(metadata: RawMetadata, place: String, from: Origin) -> Self {
        Self { metadata, place, tally: Tally::default(), from }
    }

    /// What the run says of itself.
    pub fn metadata(&self) -> &RawMetadata {
        &self.metadata
    }

    /// The next bytes, or none at the end. Lines go across.
    pub async fn next(&mut self) -> Result<Option<Bytes>, RawError> {
        let chunk = match &mut self.from {
            Origin::Folder(reader) => reader.next().await?,
            Origin::Objects(reader) => reader.next().await?,
            Origin::Nowhere => return Ok(None),
        };
        if let Some(chunk) = &chunk {
            self.tally.add(chunk);
            return Ok(Some(chunk.clone()));
        }
        self.from = Origin::Nowhere;
        let tally = std::mem::take(&mut self.tally);
        let (said, found) = (self.metadata.record_count, tally.records());
        let damage = if tally.sha256() != self.metadata.sha256 {
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
