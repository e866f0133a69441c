//! What a program is sent: what is still to be written, and how much was.

use crate::handlers::program::output::CHUNK_BYTES;

/// Lines on their way to a program.
///
/// A program that never quite catches up always has something to read. What it has read is dropped
/// all the same, so that it costs no more than the calls it has.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    /// How many of these are written.
    sent: usize,
    /// Bytes that were written in all.
    written: u64,
}

impl Outbox {
    /// Where the next line begins, in all that the program is sent.
    pub(super) fn end(&self) -> u64 {
        self.written + self.unsent().len() as u64
    }

    pub(super) fn push(&mut self, line: &str) {
        self.bytes.extend_from_slice(line.as_bytes());
    }

    /// What is still to be written.
    pub(super) fn unsent(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or_default()
    }

    /// Notes that so much of it was written.
    pub(super) fn sent(&mut self, length: usize) {
        self.written += length as u64;
        self.sent += length;
        // No byte is moved more than once on average.
        if self.sent >= self.unsent().len() {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
        if self.bytes.is_empty() {
            self.bytes.shrink_to(CHUNK_BYTES);
        }
    }

    /// How much was written in all.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Drops what was not written.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.sent = 0;
    }
}

#[cfg(test)]
mod tests;
