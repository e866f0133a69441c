//! The content of items.
//!
//! The URL of an item names its content: `sha256:HEX` is content that was copied when the item was added;
//! `file:/PATH` is a file that stays where it is. Size and hash are checked when the content is sent.
//!
//! Copied content is kept beside the raw partitions, in a folder or an object store: `items/sha256/ab/cdef…`.

use std::{fmt, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream::BoxStream};
use redrive_core::Class;
use redrive_store::{ItemContent, ItemGroup, NewItem};
use sha2::{Digest, Sha256};

use crate::{RawSink, partitions::raw::Root, uploads::FolderContent};

pub(super) const CHUNK_BYTES: usize = 128 * 1024;

pub(super) const CHUNKS_AHEAD: usize = 2;

/// The failure code of content that cannot be sent.
pub(super) const CONTENT: &str = "content";

/// Whether the content of an item may be at fault for its rejection: it could not be sent, or the receiver refuses it
/// for good. Then a repair helps, and sending the same content again may not.
pub fn is_content_at_fault(class: &str, code: &str) -> bool {
    code == CONTENT || class == Class::Final.name()
}

/// Content as a stream of chunks. Dropping it ends the reading.
#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only HTTP uploads read"))]
pub struct Chunks {
    first: Option<Bytes>,
    rest: Option<BoxStream<'static, Result<Bytes, ContentError>>>,
}

impl Chunks {
    /// Content that is in memory.
    pub fn whole(content: Bytes) -> Self {
        Self { first: Some(content), rest: None }
    }

    /// Content that is read on demand.
    pub fn streamed(
        content: impl Stream<Item = Result<Bytes, ContentError>> + Send + 'static,
    ) -> Self {
        Self { first: None, rest: Some(content.boxed()) }
    }

    /// Puts a first chunk before the stream.
    pub fn after(self, first: Bytes) -> Self {
        Self { first: Some(first), ..self }
    }

    #[cfg(feature = "http")]
    pub(super) fn poll_next(
        &mut self,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Bytes, ContentError>>> {
        match (self.first.take(), &mut self.rest) {
            (Some(first), _) => std::task::Poll::Ready(Some(Ok(first))),
            (None, Some(rest)) => rest.poll_next_unpin(context),
            (None, None) => std::task::Poll::Ready(None),
        }
    }
}

impl fmt::Debug for Chunks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunks").finish_non_exhaustive()
    }
}

#[derive(Debug, Clone)]
pub enum NewContent {
    File(PathBuf),
    Bytes(Bytes),
}

/// Content that can be sent as an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptContent {
    pub url: String,
    pub size_bytes: u64,
    /// In lower-case hexadecimal.
    pub sha256: String,
}

impl KeptContent {
    /// An item with this content. Names that no store accepts are refused.
    pub fn into_item(self, group: ItemGroup, name: String) -> redrive_store::Result<NewItem> {
        let Self { url, size_bytes, sha256 } = self;
        let item = NewItem { group, name, content_url: url, size_bytes, sha256 };
        item.check()?;
        Ok(item)
    }
}

impl From<KeptContent> for ItemContent {
    fn from(KeptContent { url, size_bytes, sha256 }: KeptContent) -> Self {
        Self { content_url: url, size_bytes, sha256 }
    }
}

/// Why content cannot be kept or sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContentError {
    /// This user may not read the content, or it is no file.
    #[error("cannot read {place}: {problem}")]
    Read { place: String, problem: String },
    /// The content does not exist. If that is so for all items, their source is unavailable.
    #[error("cannot read {place}: {problem}")]
    Missing { place: String, problem: String },
    /// The folder of the content does not exist or is empty, like that of a disk which is not mounted. Says nothing about
    /// the content.
    #[error(
        "cannot read {place}: the folder {folder} does not exist or is empty; is its disk mounted?"
    )]
    NoFolder { place: String, folder: String },
    #[error("cannot keep content in {place}: {problem}")]
    Write { place: String, problem: String },
    /// The object store cannot be reached, which says nothing about the content.
    #[error("the content cannot be reached: {0}")]
    Unreachable(String),
    /// A read failed after the first chunk.
    #[error("the content cannot be read: {0}")]
    Broken(String),
    #[error("the content URL {0:?} is neither sha256:HEX nor file:/PATH")]
    Place(String),
    #[error(
        "the content has changed: it has {found} bytes now and had {added} when the item was added"
    )]
    Size {
        /// The size now, or a lower bound of it.
        found: u64,
        added: u64,
    },
    #[error(
        "the content has changed: its hash is {found} now and was {added} when the item was added"
    )]
    Hash { found: String, added: String },
}

/// Keeps content by its hash.
#[async_trait]
pub trait Content: Send + Sync {
    /// Keeps a copy. Existing content is not written again.
    async fn keep(&self, content: NewContent) -> Result<KeptContent, ContentError>;

    /// Opens the content at each URL, copied or referenced.
    async fn open(&self, urls: Vec<String>) -> Vec<Result<Chunks, ContentError>>;
}

impl RawSink {
    /// The content of items, which is kept beside the raw partitions.
    pub fn content(&self) -> Arc<dyn Content> {
        match self.root() {
            Root::Folder(folder) => Arc::new(FolderContent::new(folder.root())),
            #[cfg(feature = "objects")]
            Root::Objects(objects) => {
                Arc::new(super::object_content::ObjectContent::new(objects.clone()))
            }
            #[cfg(not(feature = "objects"))]
            Root::Objects(objects) => match *objects {},
        }
    }
}

/// The path of copied content below the root.
pub(super) fn content_path(url: &str) -> Result<String, ContentError> {
    let hash = url.strip_prefix("sha256:").filter(|hash| {
        hash.len() == 64 && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    });
    let hash = hash.and_then(|hash| hash.split_at_checked(2));
    let (folder, name) = hash.ok_or_else(|| ContentError::Place(url.to_owned()))?;
    Ok(format!("items/sha256/{folder}/{name}"))
}

/// SHA-256 in lower-case hexadecimal.
pub fn sha256_of(bytes: &[u8]) -> String {
    hex(Sha256::digest(bytes).as_slice())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
