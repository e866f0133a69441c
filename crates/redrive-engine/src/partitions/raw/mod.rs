//! The raw sink: extracted rows, written once and never changed.
//!
//! ```text
//! ROOT/SOURCE/customer_id=…/query_name=…/logical_date=…/run_id=…/payload.jsonl
//!                                                               /metadata.json
//! ```
//!
//! `metadata.json` is written last and seals the run: an unsealed run is never read, a sealed run is never
//! written. A new attempt at a partition has a new `run_id`, and so another folder. Only the store decides
//! which run counts.
//!
//! The root is a local folder or a prefix in an object store; the layout is the same for both.

mod payload_digest;

mod layout;

mod error;
mod metadata;

pub(crate) mod durable;
mod folder;

mod object_service;

#[cfg(feature = "objects")]
mod cloud;
#[cfg(feature = "objects")]
mod http_client;
#[cfg(feature = "objects")]
mod objects;

#[cfg(not(feature = "objects"))]
#[path = "no_objects.rs"]
mod objects;

mod reader;
mod writer;

#[cfg(feature = "objects")]
use std::sync::Arc;
use std::{fmt, path::PathBuf};

use redrive_core::{PartitionKey, PartitionRunId};

pub use error::{Damage, RawError};
pub use metadata::{Extracted, RawMetadata};
pub use object_service::ObjectService;
pub use reader::RawReader;
pub use writer::RawWriter;

pub(crate) use durable::{DurableFolders, sync_folder};
pub(crate) use folder::Folder;
pub(crate) use objects::Objects;
#[cfg(feature = "objects")]
pub(crate) use objects::{ObjectReader, PART_BYTES, Parts};

use layout::{METADATA, PAYLOAD, RunPath};
use reader::ReaderBackend;
use writer::WriterBackend;

/// Stores raw partitions. Cloning it is cheap.
///
/// ```
/// use redrive_engine::{Extracted, RawSink};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let sink = RawSink::folder(folder.path());
/// let (key, run_id) = ("ads/1234/daily/2026-01-31".parse()?, "0198c0de-01".parse()?);
///
/// let mut writer = sink.begin(&key, &run_id).await?;
/// writer.write(b"{\"clicks\": 7}\n").await?;
/// let sealed = writer.seal(Extracted::default()).await?;
///
/// assert_eq!(sealed.record_count, 1);
/// assert_eq!(sink.runs(&key).await?, [run_id.clone()]);
/// assert!(sink.begin(&key, &run_id).await.is_err(), "a run_id is used once");
/// # Ok(())
/// # }) }
/// ```
#[derive(Debug, Clone)]
pub struct RawSink(Root);

#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "objects"), expect(dead_code, reason = "without objects"))]
pub(crate) enum Root {
    Folder(Folder),
    Objects(Objects),
}

/// The files of a run, for programs that read them: paths, or URLs in an object store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawLocation {
    pub payload: String,
    pub metadata: String,
}

impl RawSink {
    /// A sink in a local folder, which is created on first use.
    pub fn folder(root: impl Into<PathBuf>) -> Self {
        Self(Root::Folder(Folder::new(root.into())))
    }

    /// A sink in an object store that supports conditional puts (create if absent). `url` is the name of the
    /// sink in messages.
    #[cfg(feature = "objects")]
    pub fn objects(
        store: Arc<dyn object_store::ObjectStore>,
        prefix: &str,
        url: impl Into<String>,
    ) -> Result<Self, RawError> {
        Objects::new(store, prefix, url.into()).map(|objects| Self(Root::Objects(objects)))
    }

    /// For content that is kept beside the raw partitions.
    pub(crate) fn root(&self) -> &Root {
        &self.0
    }

    /// Begins a run. A `run_id` that was used before is refused, here or when the run is sealed.
    pub async fn begin(
        &self,
        key: &PartitionKey,
        run_id: &PartitionRunId,
    ) -> Result<RawWriter, RawError> {
        let place = RunPath::new(key, run_id);
        let to = match &self.0 {
            Root::Folder(folder) => WriterBackend::Folder(folder.begin(&place).await?),
            Root::Objects(objects) => WriterBackend::Objects(objects.begin(&place)),
        };
        Ok(RawWriter::new(key, run_id, self.describe(&place), to))
    }

    /// The metadata of a run, if the run is sealed.
    pub async fn metadata(
        &self,
        key: &PartitionKey,
        run_id: &PartitionRunId,
    ) -> Result<Option<RawMetadata>, RawError> {
        let place = RunPath::new(key, run_id);
        let bytes = match &self.0 {
            Root::Folder(folder) => folder.metadata(&place).await?,
            Root::Objects(objects) => objects.metadata(&place).await?,
        };
        let Some(bytes) = bytes else { return Ok(None) };
        let damaged = |damage| RawError::Damaged { place: self.describe(&place), damage };
        RawMetadata::parse(&bytes, key, run_id).map(Some).map_err(damaged)
    }

    pub async fn read(
        &self,
        key: &PartitionKey,
        run_id: &PartitionRunId,
    ) -> Result<RawReader, RawError> {
        let place = RunPath::new(key, run_id);
        let called = self.describe(&place);
        let Some(metadata) = self.metadata(key, run_id).await? else {
            return Err(RawError::NotSealed { place: called });
        };
        let from = match &self.0 {
            Root::Folder(folder) => folder.payload(&place).await?.map(ReaderBackend::Folder),
            Root::Objects(objects) => objects.payload(&place).await?.map(ReaderBackend::Objects),
        };
        match from {
            Some(from) => Ok(RawReader::new(metadata, called, from)),
            None => Err(RawError::Damaged { place: called, damage: Damage::NoPayload }),
        }
    }

    /// Reads a run to its end and compares it with its metadata.
    pub async fn verify(
        &self,
        key: &PartitionKey,
        run_id: &PartitionRunId,
    ) -> Result<RawMetadata, RawError> {
        let mut reader = self.read(key, run_id).await?;
        while reader.next().await?.is_some() {}
        Ok(reader.metadata().clone())
    }

    /// The sealed runs of a partition, the oldest first.
    pub async fn runs(&self, key: &PartitionKey) -> Result<Vec<PartitionRunId>, RawError> {
        let mut runs = match &self.0 {
            Root::Folder(folder) => folder.runs(key).await?,
            Root::Objects(objects) => objects.runs(key).await?,
        };
        runs.sort_unstable();
        Ok(runs)
    }

    /// The location of the files of a run, whether they exist or not.
    pub fn location(&self, key: &PartitionKey, run_id: &PartitionRunId) -> RawLocation {
        let place = RunPath::new(key, run_id);
        let [payload, metadata] = [PAYLOAD, METADATA].map(|name| match &self.0 {
            Root::Folder(folder) => {
                folder.root().join(place.path()).join(name).display().to_string()
            }
            Root::Objects(_) => format!("{}/{name}", self.describe(&place)),
        });
        RawLocation { payload, metadata }
    }

    /// Fails unless the folder is usable and has room, or the object store responds.
    pub async fn check(&self) -> Result<(), RawError> {
        match &self.0 {
            Root::Folder(folder) => folder.check().await,
            Root::Objects(objects) => objects.check().await,
        }
    }

    fn describe(&self, place: &RunPath) -> String {
        match &self.0 {
            Root::Folder(folder) => folder.root().join(place.path()).display().to_string(),
            Root::Objects(objects) => format!("{}/{}", objects.url(), place.object()),
        }
    }
}

/// The folder or the URL of the root.
impl fmt::Display for RawSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Root::Folder(folder) => folder.root().display().fmt(f),
            Root::Objects(objects) => f.write_str(objects.url()),
        }
    }
}
