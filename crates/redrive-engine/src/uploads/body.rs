//! A request body that verifies the content while it is sent.
//!
//! Content that has changed since the item was added must not look complete to the server. So the last chunk is
//! held back until size and hash are verified; until then the server has received less than `content-length`.
//! Content of one chunk is verified before anything is sent.

use std::{
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use sha2::{Digest, Sha256};

use crate::uploads::{Chunks, ContentError, content::hex};

#[derive(Debug)]
pub(super) struct CheckedBody {
    chunks: Option<Chunks>,
    held: Option<Bytes>,
    seen: u64,
    hash: Sha256,
    size: u64,
    sha256: String,
    left: u64,
    problem: Arc<OnceLock<ContentError>>,
}

impl CheckedBody {
    /// Reads until either all content is verified or there is more than one chunk.
    pub(super) async fn begin(
        chunks: Chunks,
        size: u64,
        sha256: &str,
    ) -> Result<Self, ContentError> {
        let mut body = Self {
            chunks: Some(chunks),
            held: None,
            seen: 0,
            hash: Sha256::new(),
            size,
            sha256: sha256.to_owned(),
            left: size,
            problem: Arc::default(),
        };
        // The last iteration finds the end of the content.
        while body.chunks.is_some() && (body.held.is_none() || body.seen >= body.size) {
            std::future::poll_fn(|context| body.poll_read(context)).await?;
        }
        Ok(body)
    }

    /// Set when the content turns out to have changed while it is sent.
    pub(super) fn problem(&self) -> Arc<OnceLock<ContentError>> {
        self.problem.clone()
    }

    /// Reads one chunk, or the end. Returns the chunk that was held back before.
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, ContentError>> {
        let Some(chunks) = &mut self.chunks else { return Poll::Ready(Ok(self.held.take())) };
        match ready!(chunks.poll_next(context)) {
            Some(Ok(chunk)) if chunk.is_empty() => Poll::Ready(Ok(None)),
            Some(Ok(chunk)) => {
                self.seen += chunk.len() as u64;
                if self.seen > self.size {
                    return Poll::Ready(Err(self.wrong_size()));
                }
                self.hash.update(&chunk);
                Poll::Ready(Ok(self.held.replace(chunk)))
            }
            Some(Err(problem)) => Poll::Ready(Err(problem)),
            None if self.seen != self.size => Poll::Ready(Err(self.wrong_size())),
            None => {
                self.chunks = None;
                let found = hex(std::mem::take(&mut self.hash).finalize().as_slice());
                if found == self.sha256 {
                    Poll::Ready(Ok(None))
                } else {
                    let added = self.sha256.clone();
                    Poll::Ready(Err(ContentError::Hash { found, added }))
                }
            }
        }
    }

    fn wrong_size(&self) -> ContentError {
        ContentError::Size { found: self.seen, added: self.size }
    }
}

impl Body for CheckedBody {
    type Data = Bytes;
    type Error = ContentError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ContentError>>> {
        while self.left > 0 {
            let whole = self.chunks.is_none();
            match ready!(self.poll_read(context)) {
                Ok(Some(chunk)) => {
                    self.left -= chunk.len() as u64;
                    return Poll::Ready(Some(Ok(Frame::data(chunk))));
                }
                Ok(None) if whole => break,
                Ok(None) => {}
                Err(problem) => {
                    _ = self.problem.set(problem.clone());
                    return Poll::Ready(Some(Err(problem)));
                }
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
