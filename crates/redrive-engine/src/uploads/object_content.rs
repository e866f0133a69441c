//! Content in an object store.
//!
//! Content of one part is created with one request; if the object exists, it has the same content. Longer
//! content is a multipart upload, which appears as a whole. Objects are named by their hash, so two writers of
//! one object write the same bytes.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream;
use http_body_util::BodyExt;

use crate::{
    RawError,
    partitions::raw::{ObjectReader, Objects, PART_BYTES, Parts},
    uploads::{
        Chunks, Content, ContentError, KeptContent, NewContent,
        body::CheckedBody,
        content::{content_path, sha256_of},
        local_files::{blocking, copy_new, open_all, read_error, referenced_file},
    },
};

/// Keeps content in the object store of the raw sink, and reads referenced files.
#[derive(Debug, Clone)]
pub(super) struct ObjectContent {
    objects: Objects,
}

impl ObjectContent {
    pub(super) fn new(objects: Objects) -> Self {
        Self { objects }
    }

    async fn keep_short(&self, bytes: Vec<u8>) -> Result<KeptContent, ContentError> {
        let kept = kept_content(bytes.len() as u64, sha256_of(&bytes));
        match self.objects.put_new(&content_path(&kept.url)?, bytes).await {
            Ok(()) | Err(RawError::Used { .. }) => Ok(kept),
            Err(error) => Err(self.write_error(&error)),
        }
    }

    async fn keep_long(&self, content: NewContent) -> Result<KeptContent, ContentError> {
        let place = PathBuf::from(self.objects.url());
        let hashed = content.clone();
        let (size, sha256) = blocking(move || copy_new(&hashed, &mut io::sink(), &place)).await?;
        let kept = kept_content(size, sha256);
        let place = content_path(&kept.url)?;
        if self.objects.has(&place).await.map_err(|error| self.write_error(&error))? {
            return Ok(kept);
        }
        let chunks = match content {
            NewContent::Bytes(bytes) => Chunks::whole(bytes),
            NewContent::File(file) => {
                let chunks = open_all(vec![Ok(file)], None).await.pop();
                chunks.unwrap_or_else(|| Ok(Chunks::whole(Bytes::new())))?
            }
        };
        let body = CheckedBody::begin(chunks, kept.size_bytes, &kept.sha256).await?;
        let mut parts =
            self.objects.put_parts(&place).await.map_err(|error| self.write_error(&error))?;
        match self.put(body, &mut parts).await {
            Ok(()) => parts.finish().await.map_err(|error| self.write_error(&error))?,
            Err(problem) => {
                if let Err(error) = parts.abort().await {
                    tracing::warn!(
                        error = error.in_words(),
                        "cannot abort a multipart upload; its parts stay in the object store"
                    );
                }
                return Err(problem);
            }
        }
        Ok(kept)
    }

    /// Uploads the content, and fails if it has changed since it was hashed.
    async fn put(&self, mut body: CheckedBody, parts: &mut Parts) -> Result<(), ContentError> {
        while let Some(frame) = body.frame().await {
            let Ok(chunk) = frame?.into_data() else { continue };
            parts.write(&chunk).await.map_err(|error| self.write_error(&error))?;
        }
        Ok(())
    }

    fn write_error(&self, error: &RawError) -> ContentError {
        let place = self.objects.url().to_owned();
        ContentError::Write { place, problem: error.in_words() }
    }

    /// Requests the object when the first chunk is needed: an item may wait longer than the server keeps an idle
    /// response open.
    fn read(&self, url: &str) -> Result<Chunks, ContentError> {
        let place = content_path(url)?;
        let begin = (self.objects.clone(), place, None::<ObjectReader>);
        Ok(Chunks::streamed(stream::try_unfold(begin, |(objects, place, reader)| async move {
            let mut reader = match reader {
                Some(reader) => reader,
                None => match objects.read(&place).await.map_err(unreachable)? {
                    Some(reader) => reader,
                    None => {
                        let place = format!("{}/{place}", objects.url());
                        let problem = "the object does not exist".to_owned();
                        return Err(ContentError::Missing { place, problem });
                    }
                },
            };
            let chunk = reader.next().await.map_err(unreachable)?;
            Ok(chunk.map(|chunk| (chunk, (objects, place, Some(reader)))))
        })))
    }
}

#[async_trait]
impl Content for ObjectContent {
    async fn keep(&self, content: NewContent) -> Result<KeptContent, ContentError> {
        let part = match &content {
            NewContent::Bytes(bytes) => (bytes.len() <= PART_BYTES).then(|| bytes.to_vec()),
            NewContent::File(path) => {
                let path = path.clone();
                blocking(move || read_part(&path)).await?
            }
        };
        match part {
            Some(bytes) => self.keep_short(bytes).await,
            None => self.keep_long(content).await,
        }
    }

    async fn open(&self, urls: Vec<String>) -> Vec<Result<Chunks, ContentError>> {
        let mut opened = Vec::with_capacity(urls.len());
        for url in urls {
            match referenced_file(&url) {
                Some(file) => opened.append(&mut open_all(vec![Ok(file)], None).await),
                None => opened.push(self.read(&url)),
            }
        }
        opened
    }
}

fn kept_content(size_bytes: u64, sha256: String) -> KeptContent {
    KeptContent { url: format!("sha256:{sha256}"), size_bytes, sha256 }
}

fn unreachable(error: RawError) -> ContentError {
    ContentError::Unreachable(error.in_words())
}

/// The content of a file, unless it is longer than one part.
fn read_part(path: &Path) -> Result<Option<Vec<u8>>, ContentError> {
    let read_error = |error| read_error(path, &error);
    let mut bytes = Vec::new();
    let limit = PART_BYTES as u64 + 1;
    File::open(path)
        .map_err(read_error)?
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(read_error)?;
    Ok((bytes.len() <= PART_BYTES).then_some(bytes))
}
