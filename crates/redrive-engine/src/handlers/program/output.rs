//! Keeps the relevant part of a program's output in bounded memory.

use std::collections::VecDeque;

use tokio::io::{AsyncRead, AsyncReadExt};

pub(crate) const CHUNK_BYTES: usize = 32 * 1024;

const HEAD_BYTES: usize = 1024;

const TAIL_BYTES: usize = 4 * 1024;

/// Reads until the end of the pipe. An error counts as the end.
pub(crate) async fn read(mut pipe: impl AsyncRead + Unpin, mut keep: impl FnMut(&[u8])) {
    let mut buffer = vec![0; CHUNK_BYTES];
    while let Ok(length @ 1..) = pipe.read(&mut buffer).await {
        keep(buffer.get(..length).unwrap_or_default());
    }
}

/// Keeps the first bytes and the last.
#[derive(Debug)]
pub(crate) struct HeadAndTail {
    head: Vec<u8>,
    head_bytes: usize,
    tail: Tail,
}

impl Default for HeadAndTail {
    /// Keeps the first [`HEAD_BYTES`] and the last [`TAIL_BYTES`].
    fn default() -> Self {
        Self::with_bounds(HEAD_BYTES, TAIL_BYTES)
    }
}

impl HeadAndTail {
    pub(crate) fn with_bounds(head_bytes: usize, tail_bytes: usize) -> Self {
        Self { head: Vec::new(), head_bytes, tail: Tail { most: tail_bytes, ..Tail::default() } }
    }

    pub(crate) fn push(&mut self, chunk: &[u8]) {
        let room = self.head_bytes.saturating_sub(self.head.len()).min(chunk.len());
        let (head, rest) = chunk.split_at(room);
        self.head.extend_from_slice(head);
        self.tail.push(rest);
    }

    /// How many bytes were pushed.
    pub(crate) fn total(&self) -> u64 {
        (self.head.len() + self.tail.bytes.len()) as u64 + self.tail.cut
    }

    /// The first bytes, how many are missing after them, and the last bytes.
    pub(crate) fn parts(&self) -> (&[u8], u64, Vec<u8>) {
        (&self.head, self.tail.cut, self.tail.to_bytes())
    }

    /// The kept bytes, with a note where bytes are missing.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.head.clone();
        if self.tail.cut > 0 {
            let mark = format!("\n[… {} bytes truncated …]\n", self.tail.cut);
            bytes.extend_from_slice(mark.as_bytes());
        }
        bytes.extend(&self.tail.bytes);
        bytes
    }
}

#[derive(Debug)]
pub(crate) struct Tail {
    most: usize,
    bytes: VecDeque<u8>,
    /// How many bytes before them were dropped.
    cut: u64,
}

impl Default for Tail {
    fn default() -> Self {
        Self { most: TAIL_BYTES, bytes: VecDeque::new(), cut: 0 }
    }
}

impl Tail {
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        let skipped = chunk.len().saturating_sub(self.most);
        let surplus = (self.bytes.len() + chunk.len() - skipped).saturating_sub(self.most);
        self.bytes.drain(..surplus);
        self.bytes.extend(chunk.iter().skip(skipped));
        self.cut += (surplus + skipped) as u64;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.bytes.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests;
