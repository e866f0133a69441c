//! The lines to write to a program, and how many bytes were written.

use crate::handlers::program::output::CHUNK_BYTES;

/// Written bytes are dropped even if the program never catches up, so that memory is bounded by the calls in
/// flight.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    /// How many of `bytes` are written.
    sent: usize,
    /// All bytes ever written.
    written: u64,
}

impl Outbox {
    /// The offset of the next line in all bytes written to the program.
    pub(super) fn end(&self) -> u64 {
        self.written + self.unsent().len() as u64
    }

    pub(super) fn push(&mut self, line: &str) {
        self.bytes.extend_from_slice(line.as_bytes());
    }

    pub(super) fn unsent(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or_default()
    }

    pub(super) fn sent(&mut self, length: usize) {
        self.written += length as u64;
        self.sent += length;
        // On average, no byte is moved more than once.
        if self.sent >= self.unsent().len() {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
        if self.bytes.is_empty() {
            self.bytes.shrink_to(CHUNK_BYTES);
        }
    }

    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Drops the unwritten bytes.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.sent = 0;
    }
}

#[cfg(test)]
mod tests;
