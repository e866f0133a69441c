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

/// Keeps the first [`HEAD_BYTES`] and the last [`TAIL_BYTES`].
#[derive(Debug, Default)]
pub(crate) struct HeadAndTail {
    head: Vec<u8>,
    tail: Tail,
}

impl HeadAndTail {
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        let room = HEAD_BYTES.saturating_sub(self.head.len()).min(chunk.len());
        let (head, rest) = chunk.split_at(room);
        self.head.extend_from_slice(head);
        self.tail.push(rest);
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

#[derive(Debug, Default)]
pub(crate) struct Tail {
    bytes: VecDeque<u8>,
    /// How many bytes before them were dropped.
    cut: u64,
}

impl Tail {
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        let skipped = chunk.len().saturating_sub(TAIL_BYTES);
        let surplus = (self.bytes.len() + chunk.len() - skipped).saturating_sub(TAIL_BYTES);
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
