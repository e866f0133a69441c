//! Raw partitions in an object store: S3 and its kin, Google Cloud Storage, Azure.
//!
//! A payload that fits into one part is put in one request that fails if there is one. A longer one
//! first puts an empty payload in the same way, which makes the run its own, and then replaces it by a
//! multipart upload. So of two writers of a run one is refused before it changes anything, and the
//! metadata is a second such request.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream::BoxStream};
use object_store::{
    Error, ObjectStore, ObjectStoreExt, PutMode, PutPayload, WriteMultipart, path::Path,
};
use redrive_core::{PartitionKey, PartitionRunId};

use super::{
    error::RawError,
    layout::{METADATA, PAYLOAD, Place, key_folders, run_of_folder},
    metadata::MAX_METADATA_BYTES,
};

/// The longest prefix, in bytes, that leaves room for the longest key.
pub(super) const MAX_PREFIX_BYTES: usize = 128;

/// The size of a part. An upload has at most 10,000 of them, so a payload is below 80 GB.
const PART_BYTES: usize = 8 * 1024 * 1024;

/// How many parts are under way at once.
const PARTS_IN_FLIGHT: usize = 2;

/// A place in an object store.
#[derive(Debug, Clone)]
pub(super) struct Objects {
    store: Arc<dyn ObjectStore>,
    prefix: String,
    url: String,
}

/// A run that is being written.
#[derive(Debug)]
pub(super) struct ObjectWriter {
    objects: Objects,
    folder: String,
    gathered: Vec<u8>,
    upload: Option<WriteMultipart>,
}

/// The payload of a sealed run, as it comes.
pub(super) struct ObjectReader {
    url: String,
    payload: BoxStream<'static, object_store::Result<Bytes>>,
}

impl Objects {
    pub(super) fn new(
        store: Arc<dyn ObjectStore>,
        prefix: &str,
        url: String,
    ) -> Result<Self, RawError> {
        let prefix = prefix.trim_matches('/');
        let unusable = |problem: String| RawError::Unusable { url: url.clone(), problem };
        if prefix.len() > MAX_PREFIX_BYTES {
            let bytes = prefix.len();
            let problem = format!("its prefix has {bytes} bytes, {MAX_PREFIX_BYTES} are allowed");
            return Err(unusable(problem));
        }
        Path::parse(prefix).map_err(|error| unusable(error.to_string()))?;
        Ok(Self { store, prefix: prefix.to_owned(), url })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn begin(&self, place: &Place) -> ObjectWriter {
        ObjectWriter {
            objects: self.clone(),
            folder: place.object(),
            gathered: Vec::new(),
            upload: None,
        }
    }

    /// The bytes of a run's metadata, if it is sealed.
    pub(super) async fn metadata(&self, place: &Place) -> Result<Option<Vec<u8>>, RawError> {
        let (path, url) = self.object(&place.object(), METADATA)?;
        let Some(found) = found(self.store.get(&path).await).map_err(failed("read", &url))? else {
            return Ok(None);
        };
        let (mut bytes, mut stream) = (Vec::new(), found.into_stream());
        while let Some(chunk) = stream.try_next().await.map_err(failed("read", &url))? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MAX_METADATA_BYTES {
                break;
            }
        }
        Ok(Some(bytes))
    }

    /// The payload of a run, if it is there.
    pub(super) async fn payload(&self, place: &Place) -> Result<Option<ObjectReader>, RawError> {
        let (path, url) = self.object(&place.object(), PAYLOAD)?;
        let found = found(self.store.get(&path).await).map_err(failed("read", &url))?;
        Ok(found.map(|found| ObjectReader { url, payload: found.into_stream() }))
    }

    /// The sealed runs of a key, in no order.
    pub(super) async fn runs(&self, key: &PartitionKey) -> Result<Vec<PartitionRunId>, RawError> {
        let (folder, url) = self.path(&key_folders(key).join("/"))?;
        let mut objects = self.store.list(Some(&folder));
        let mut runs = Vec::new();
        while let Some(object) = objects.try_next().await.map_err(failed("list", &url))? {
            let rest = object.location.as_ref().strip_prefix(folder.as_ref());
            let run = rest
                .and_then(|rest| rest.strip_prefix('/')?.strip_suffix(METADATA)?.strip_suffix('/'))
                .and_then(run_of_folder);
            runs.extend(run);
        }
        Ok(runs)
    }

    /// Whether the store answers.
    pub(super) async fn check(&self) -> Result<(), RawError> {
        let prefix = Path::parse(&self.prefix).unwrap_or_default();
        let first = self.store.list(Some(&prefix)).next().await;
        first.transpose().map_err(failed("list", &self.url)).map(|_| ())
    }

    /// Where a name below the root is, and how it is called.
    fn path(&self, below: &str) -> Result<(Path, String), RawError> {
        let path = format!("{}/{below}", self.prefix);
        let url = format!("{}/{below}", self.url);
        match Path::parse(path.trim_start_matches('/')) {
            Ok(path) => Ok((path, url)),
            Err(error) => Err(RawError::Unusable { url, problem: error.to_string() }),
        }
    }

    fn object(&self, folder: &str, name: &str) -> Result<(Path, String), RawError> {
        self.path(&format!("{folder}/{name}"))
    }

    /// Puts what is not there yet.
    async fn create(&self, folder: &str, name: &str, bytes: Vec<u8>) -> Result<(), RawError> {
        let (path, url) = self.object(folder, name)?;
        match self.store.put_opts(&path, PutPayload::from(bytes), PutMode::Create.into()).await {
            Ok(_) => Ok(()),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {
                Err(RawError::Used { place: url })
            }
            Err(error) => Err(failed("write", &url)(error)),
        }
    }
}

impl ObjectWriter {
    pub(super) async fn write(&mut self, mut bytes: &[u8]) -> Result<(), RawError> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at_checked(PART_BYTES).unwrap_or((bytes, &[]));
            bytes = later;
            if self.upload.is_none() {
                self.gathered.extend_from_slice(now);
                if self.gathered.len() > PART_BYTES {
                    self.begin_upload().await?;
                }
            } else {
                self.upload_some(now).await?;
            }
        }
        Ok(())
    }

    async fn begin_upload(&mut self) -> Result<(), RawError> {
        let (path, url) = self.objects.object(&self.folder, PAYLOAD)?;
        self.objects.create(&self.folder, PAYLOAD, Vec::new()).await?;
        let store = &self.objects.store;
        let upload = store.put_multipart(&path).await.map_err(failed("begin", &url))?;
        self.upload = Some(WriteMultipart::new_with_chunk_size(upload, PART_BYTES));
        let gathered = std::mem::take(&mut self.gathered);
        self.upload_some(&gathered).await
    }

    async fn upload_some(&mut self, bytes: &[u8]) -> Result<(), RawError> {
        let Some(upload) = &mut self.upload else { return Ok(()) };
        for piece in bytes.chunks(PART_BYTES) {
            if let Err(error) = upload.wait_for_capacity(PARTS_IN_FLIGHT).await {
                let (_, url) = self.objects.object(&self.folder, PAYLOAD)?;
                return Err(failed("write", &url)(error));
            }
            upload.write(piece);
        }
        Ok(())
    }

    pub(super) async fn seal(mut self, metadata: Vec<u8>) -> Result<(), RawError> {
        let gathered = std::mem::take(&mut self.gathered);
        match self.upload.take() {
            None => self.objects.create(&self.folder, PAYLOAD, gathered).await?,
            Some(upload) => {
                let (_, url) = self.objects.object(&self.folder, PAYLOAD)?;
                upload.finish().await.map_err(failed("write", &url))?;
            }
        }
        match self.objects.create(&self.folder, METADATA, metadata.clone()).await {
            // The payload is ours, so this is our own seal, written by a request whose answer was lost.
            Err(RawError::Used { place }) => {
                let (path, url) = self.objects.object(&self.folder, METADATA)?;
                let read = self.objects.store.get(&path).await.map_err(failed("read", &url))?;
                let there = read.bytes().await.map_err(failed("read", &url))?;
                if there == metadata { Ok(()) } else { Err(RawError::Used { place }) }
            }
            sealed => sealed,
        }
    }

    pub(super) async fn abort(mut self) -> Result<(), RawError> {
        let Some(upload) = self.upload.take() else { return Ok(()) };
        let (path, url) = self.objects.object(&self.folder, PAYLOAD)?;
        upload.abort().await.map_err(failed("abort", &url))?;
        self.objects.store.delete(&path).await.map_err(failed("remove", &url))
    }
}

/// Ends the upload of a writer that was dropped, so that its parts do not lie around. Without a runtime
/// they do: nobody can read them.
impl Drop for ObjectWriter {
    fn drop(&mut self) {
        let Some(upload) = self.upload.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (objects, folder) = (self.objects.clone(), std::mem::take(&mut self.folder));
        let left = Self { objects, folder, gathered: Vec::new(), upload: Some(upload) };
        runtime.spawn(async move {
            if let Err(error) = left.abort().await {
                tracing::warn!(error = error.in_words(), "an upload could not be aborted");
            }
        });
    }
}

impl ObjectReader {
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, RawError> {
        self.payload.try_next().await.map_err(failed("read", &self.url))
    }
}

fn found<T>(result: object_store::Result<T>) -> object_store::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn failed(doing: &'static str, url: &str) -> impl Fn(Error) -> RawError {
    let place = url.to_owned();
    move |source| RawError::Object { doing, place: place.clone(), source }
}
