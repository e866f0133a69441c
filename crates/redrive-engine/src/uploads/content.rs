//! The bytes of items: where they are, and whether they are still what was added.
//!
//! An item says where its bytes are: `sha256:HEX` is content that was kept when the item was added, by
//! its hash; `file:/PATH` is a file that is left where it is. Either way size and hash are checked when
//! it is sent.
//!
//! Kept content lies beside the raw partitions, in a folder or an object store: `items/sha256/ab/cdef…`.

use std::{
    fmt,
    path::PathBuf,
    sync::Arc,
    task::{Context, Poll},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream::BoxStream};
use redrive_store::{ItemGroup, NewItem};
use sha2::{Digest, Sha256};

use crate::{
    RawSink,
    partitions::raw::Root,
    uploads::{FolderContent, object_content::ObjectContent},
};

/// How much is read at a time.
pub(super) const CHUNK_BYTES: usize = 128 * 1024;

/// Chunks that are read ahead.
pub(super) const CHUNKS_AHEAD: usize = 2;

/// Content, as it is read. Dropping it ends the reading.
pub struct Chunks {
    first: Option<Bytes>,
    rest: Option<BoxStream<'static, Result<Bytes, ContentError>>>,
}

impl Chunks {
    /// Content that is there as a whole.
    pub fn whole(content: Bytes) -> Self {
        Self { first: Some(content), rest: None }
    }

    /// Content that is read when it is asked for.
    pub fn streamed(
        content: impl Stream<Item = Result<Bytes, ContentError>> + Send + 'static,
    ) -> Self {
        Self { first: None, rest: Some(content.boxed()) }
    }

    /// The same, after a beginning that is there.
    pub fn after(self, first: Bytes) -> Self {
        Self { first: Some(first), ..self }
    }

    pub(super) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, ContentError>>> {
        match (self.first.take(), &mut self.rest) {
            (Some(first), _) => Poll::Ready(Some(Ok(first))),
            (None, Some(rest)) => rest.poll_next_unpin(context),
            (None, None) => Poll::Ready(None),
        }
    }
}

impl fmt::Debug for Chunks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunks").finish_non_exhaustive()
    }
}

/// Content to keep.
#[derive(Debug, Clone)]
pub enum NewContent {
    /// What a file holds.
    File(PathBuf),
    /// Bytes that are there.
    Bytes(Bytes),
}

/// Content as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptContent {
    /// Where it is.
    pub url: String,
    /// How many bytes it has.
    pub size_bytes: u64,
    /// Their hash, as lower-case hex.
    pub sha256: String,
}

impl KeptContent {
    /// The item of a group that has this content. Names that no store could keep are refused.
    pub fn into_item(self, group: ItemGroup, name: String) -> redrive_store::Result<NewItem> {
        let Self { url, size_bytes, sha256 } = self;
        let item = NewItem { group, name, content_url: url, size_bytes, sha256 };
        item.check()?;
        Ok(item)
    }
}

/// Why content cannot be kept or sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContentError {
    /// It cannot be read: it is not there, or not for us.
    #[error("cannot read {place}: {problem}")]
    Read {
        /// The file or object.
        place: String,
        /// Why.
        problem: String,
    },
    /// It cannot be written.
    #[error("cannot keep content in {place}: {problem}")]
    Write {
        /// The file, folder or object.
        place: String,
        /// Why.
        problem: String,
    },
    /// Where it is kept cannot be reached. That says nothing of the content.
    #[error("the content cannot be reached: {0}")]
    Unreachable(String),
    /// Reading it broke off.
    #[error("the content cannot be read: {0}")]
    Broken(String),
    /// Nobody here knows such a place.
    #[error("the content is at {0:?}, which is neither sha256:HEX nor file:/PATH")]
    Place(String),
    /// It has another size than when it was added.
    #[error("the content has changed: it has {found} bytes and had {added} when it was added")]
    Size {
        /// The size now, or more than it was.
        found: u64,
        /// The size then.
        added: u64,
    },
    /// It has another hash than when it was added.
    #[error("the content has changed: its hash is {found} and was {added} when it was added")]
    Hash {
        /// The hash now.
        found: String,
        /// The hash then.
        added: String,
    },
}

/// Where content is kept by its hash.
#[async_trait]
pub trait Content: Send + Sync {
    /// Keeps a copy. Content that is there already is not written again.
    async fn keep(&self, content: NewContent) -> Result<KeptContent, ContentError>;

    /// Begins to read the content at each place, kept or not.
    async fn open(&self, urls: Vec<String>) -> Vec<Result<Chunks, ContentError>>;
}

impl RawSink {
    /// Where the content of items is kept: beside the raw partitions.
    pub fn content(&self) -> Arc<dyn Content> {
        match self.root() {
            Root::Folder(folder) => Arc::new(FolderContent::new(folder.root())),
            Root::Objects(objects) => Arc::new(ObjectContent::new(objects.clone())),
        }
    }
}

/// Where content with a hash is kept, below the root.
pub(super) fn content_path(url: &str) -> Result<String, ContentError> {
    let hash = url.strip_prefix("sha256:").filter(|hash| {
        hash.len() == 64 && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    });
    let hash = hash.and_then(|hash| hash.split_at_checked(2));
    let (folder, name) = hash.ok_or_else(|| ContentError::Place(url.to_owned()))?;
    Ok(format!("items/sha256/{folder}/{name}"))
}

/// SHA-256 of bytes, in lower-case hexadecimal.
pub fn sha256_of(bytes: &[u8]) -> String {
    hex(Sha256::digest(bytes).as_slice())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
