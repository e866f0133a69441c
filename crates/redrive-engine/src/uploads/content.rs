//! The bytes of items: where they are, and whether they are still what was added.
//!
//! An item says where its bytes are: `sha256:HEX` is content that was kept when the item was added, by
//! its hash; `file:/PATH` is a file that is left where it is. Either way size and hash are checked when
//! it is sent.

use std::{
    fmt::Write,
    io,
    path::{Path, PathBuf},
    task::{Context, Poll},
};

use async_trait::async_trait;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

/// How much is read at a time.
pub(super) const CHUNK_BYTES: usize = 128 * 1024;

/// Chunks that are read ahead.
pub(super) const CHUNKS_AHEAD: usize = 2;

/// Content, as it is read. Dropping it ends the reading.
#[derive(Debug)]
pub struct Chunks {
    first: Option<Bytes>,
    rest: Option<mpsc::Receiver<io::Result<Bytes>>>,
}

impl Chunks {
    /// Content that is there as a whole.
    pub fn whole(content: Bytes) -> Self {
        Self { first: Some(content), rest: None }
    }

    /// Content that begins like this and goes on.
    pub fn beginning(first: Bytes, rest: mpsc::Receiver<io::Result<Bytes>>) -> Self {
        Self { first: Some(first), rest: Some(rest) }
    }

    pub(super) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Bytes>>> {
        match (self.first.take(), &mut self.rest) {
            (Some(first), _) => Poll::Ready(Some(Ok(first))),
            (None, Some(rest)) => rest.poll_recv(context),
            (None, None) => Poll::Ready(None),
        }
    }
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

/// Why content cannot be kept or sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContentError {
    /// A file cannot be read.
    #[error("cannot read {path}: {problem}", path = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        problem: String,
    },
    /// It cannot be written.
    #[error("cannot keep content in {path}: {problem}", path = .path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        problem: String,
    },
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

impl ContentError {
    pub(super) fn read(path: &Path, error: &io::Error) -> Self {
        Self::Read { path: path.to_owned(), problem: error.to_string() }
    }

    pub(super) fn write(path: &Path, error: &io::Error) -> Self {
        Self::Write { path: path.to_owned(), problem: error.to_string() }
    }
}

/// Where content is kept by its hash.
#[async_trait]
pub trait Content: Send + Sync {
    /// Keeps a copy of a file. Content that is there already is not written again.
    async fn keep(&self, file: &Path) -> Result<KeptContent, ContentError>;

    /// Begins to read the content at each place, kept or not.
    async fn open(&self, urls: Vec<String>) -> Vec<Result<Chunks, ContentError>>;
}

/// SHA-256 of bytes, in lower-case hexadecimal.
pub fn sha256_of(bytes: &[u8]) -> String {
    hex(Sha256::digest(bytes).as_slice())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a text cannot fail.
        _ = write!(text, "{byte:02x}");
    }
    text
}
