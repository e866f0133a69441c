//! Raw partitions, and the content of items, in an object store: S3, Google Cloud Storage, Azure.
//!
//! A payload of one part is put with one request that fails if the object exists. For a longer payload, the
//! writer first creates an empty object in the same way, which reserves the run, and then replaces it with a
//! multipart upload. So of two writers of a run one is refused before it changes anything. The metadata is
//! created like a short payload.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream::BoxStream};
use object_store::{
    Error, ObjectStore, ObjectStoreExt, PutMode, PutPayload, WriteMultipart, path::Path,
};
use redrive_core::{PartitionKey, PartitionRunId};

use super::{
    error::RawError,
    layout::{METADATA, PAYLOAD, RunPath, key_folders, run_of_folder},
    metadata::MAX_METADATA_BYTES,
};

/// The longest prefix, in bytes, with which the longest key still fits.
pub(super) const MAX_PREFIX_BYTES: usize = 128;

/// The size of a part, and the most that is put with one request. An upload has at most 10,000 parts, so a
/// payload is at most 80 GB.
pub(crate) const PART_BYTES: usize = 8 * 1024 * 1024;

const PARTS_IN_FLIGHT: usize = 2;

/// A prefix in an object store.
#[derive(Debug, Clone)]
pub(crate) struct Objects {
    store: Arc<dyn ObjectStore>,
    prefix: String,
    url: String,
}

#[derive(Debug)]
pub(super) struct ObjectWriter {
    objects: Objects,
    folder: String,
    buffer: Vec<u8>,
    upload: Option<Parts>,
}

pub(crate) struct ObjectReader {
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

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn begin(&self, place: &RunPath) -> ObjectWriter {
        ObjectWriter {
            objects: self.clone(),
            folder: place.object(),
            buffer: Vec::new(),
            upload: None,
        }
    }

    /// The bytes of the metadata, if the run is sealed.
    pub(super) async fn metadata(&self, place: &RunPath) -> Result<Option<Vec<u8>>, RawError> {
        let (path, url) = self.path(&format!("{}/{METADATA}", place.object()))?;
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

    pub(super) async fn payload(&self, place: &RunPath) -> Result<Option<ObjectReader>, RawError> {
        self.read(&format!("{}/{PAYLOAD}", place.object())).await
    }

    /// Reads the object at a path below the root, if it exists.
    pub(crate) async fn read(&self, below: &str) -> Result<Option<ObjectReader>, RawError> {
        let (path, url) = self.path(below)?;
        let found = found(self.store.get(&path).await).map_err(failed("read", &url))?;
        Ok(found.map(|found| ObjectReader { url, payload: found.into_stream() }))
    }

    pub(crate) async fn has(&self, below: &str) -> Result<bool, RawError> {
        let (path, url) = self.path(below)?;
        let found = found(self.store.head(&path).await).map_err(failed("find", &url))?;
        Ok(found.is_some())
    }

    /// Creates an object of at most one part. Fails if the object exists.
    pub(crate) async fn put_new(
        &self,
        below: &str,
        bytes: impl Into<PutPayload>,
    ) -> Result<(), RawError> {
        let (path, url) = self.path(below)?;
        match self.store.put_opts(&path, bytes.into(), PutMode::Create.into()).await {
            Ok(_) => Ok(()),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {
                Err(RawError::Used { place: url })
            }
            Err(error) => Err(failed("write", &url)(error)),
        }
    }

    /// Begins a multipart upload. The object appears when the upload is finished.
    pub(crate) async fn put_parts(&self, below: &str) -> Result<Parts, RawError> {
        let (path, url) = self.path(below)?;
        let upload = self.store.put_multipart(&path).await.map_err(failed("begin", &url))?;
        Ok(Parts { upload: WriteMultipart::new_with_chunk_size(upload, PART_BYTES), url })
    }

    /// The sealed runs of a key, in any order.
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

    pub(super) async fn check(&self) -> Result<(), RawError> {
        let prefix = Path::parse(&self.prefix).unwrap_or_default();
        let first = self.store.list(Some(&prefix)).next().await;
        first.transpose().map_err(failed("list", &self.url)).map(|_| ())
    }

    /// The path of an object below the root, and its URL for messages.
    pub(crate) fn path(&self, below: &str) -> Result<(Path, String), RawError> {
        let path = format!("{}/{below}", self.prefix);
        let url = format!("{}/{below}", self.url);
        match Path::parse(path.trim_start_matches('/')) {
            Ok(path) => Ok((path, url)),
            Err(error) => Err(RawError::Unusable { url, problem: error.to_string() }),
        }
    }
}

/// A multipart upload.
#[derive(Debug)]
pub(crate) struct Parts {
    upload: WriteMultipart,
    url: String,
}

impl Parts {
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<(), RawError> {
        for piece in bytes.chunks(PART_BYTES) {
            let room = self.upload.wait_for_capacity(PARTS_IN_FLIGHT).await;
            room.map_err(failed("write", &self.url))?;
            self.upload.write(piece);
        }
        Ok(())
    }

    pub(crate) async fn finish(self) -> Result<(), RawError> {
        self.upload.finish().await.map(|_| ()).map_err(failed("write", &self.url))
    }

    pub(crate) async fn abort(self) -> Result<(), RawError> {
        self.upload.abort().await.map_err(failed("abort", &self.url))
    }
}

impl ObjectWriter {
    pub(super) async fn write(&mut self, mut bytes: &[u8]) -> Result<(), RawError> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at_checked(PART_BYTES).unwrap_or((bytes, &[]));
            bytes = later;
            if self.upload.is_none() {
                self.buffer.extend_from_slice(now);
                if self.buffer.len() > PART_BYTES {
                    self.begin_upload().await?;
                }
            } else {
                self.upload_some(now).await?;
            }
        }
        Ok(())
    }

    async fn begin_upload(&mut self) -> Result<(), RawError> {
        let payload = self.object(PAYLOAD);
        self.objects.put_new(&payload, Vec::new()).await?;
        self.upload = Some(self.objects.put_parts(&payload).await?);
        let buffer = std::mem::take(&mut self.buffer);
        self.upload_some(&buffer).await
    }

    async fn upload_some(&mut self, bytes: &[u8]) -> Result<(), RawError> {
        match &mut self.upload {
            Some(upload) => upload.write(bytes).await,
            None => Ok(()),
        }
    }

    fn object(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    pub(super) async fn seal(mut self, metadata: Vec<u8>) -> Result<(), RawError> {
        let buffer = std::mem::take(&mut self.buffer);
        match self.upload.take() {
            None => self.objects.put_new(&self.object(PAYLOAD), buffer).await?,
            Some(upload) => upload.finish().await?,
        }
        match self.objects.put_new(&self.object(METADATA), metadata.clone()).await {
            // This writer owns the payload, so equal metadata is its own, from a request whose response was lost.
            Err(RawError::Used { place }) => {
                let (path, url) = self.objects.path(&self.object(METADATA))?;
                let read = self.objects.store.get(&path).await.map_err(failed("read", &url))?;
                let there = read.bytes().await.map_err(failed("read", &url))?;
                if there == metadata { Ok(()) } else { Err(RawError::Used { place }) }
            }
            sealed => sealed,
        }
    }

    pub(super) async fn abort(mut self) -> Result<(), RawError> {
        let Some(upload) = self.upload.take() else { return Ok(()) };
        upload.abort().await?;
        let (path, url) = self.objects.path(&self.object(PAYLOAD))?;
        self.objects.store.delete(&path).await.map_err(failed("remove", &url))
    }
}

/// Aborts the upload of a dropped writer, so that its parts are removed. Without a runtime they stay, unread.
impl Drop for ObjectWriter {
    fn drop(&mut self) {
        let Some(upload) = self.upload.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (objects, folder) = (self.objects.clone(), std::mem::take(&mut self.folder));
        let left = Self { objects, folder, buffer: Vec::new(), upload: Some(upload) };
        runtime.spawn(async move {
            if let Err(error) = left.abort().await {
                tracing::warn!(
                    error = error.in_words(),
                    "cannot abort a multipart upload; its parts stay in the object store"
                );
            }
        });
    }
}

impl ObjectReader {
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, RawError> {
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
