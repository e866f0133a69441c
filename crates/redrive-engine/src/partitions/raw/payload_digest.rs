//! Counts the records of a payload and computes its hash while it is written or read.

use sha2::{Digest, Sha256};

#[derive(Debug, Clone, Default)]
pub(super) struct PayloadDigest {
    hash: Sha256,
    lines: u64,
    is_open: bool,
}

impl PayloadDigest {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        self.hash.update(bytes);
        self.lines += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.is_open = *last != b'\n';
    }

    /// Whether the last line has no newline yet.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// The number of lines, including a last line without a newline.
    pub(super) fn records(&self) -> u64 {
        self.lines + u64::from(self.is_open)
    }

    /// In lower-case hexadecimal.
    pub(super) fn sha256(self) -> String {
        hex(&self.hash.finalize())
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let nibbles = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    nibbles.filter_map(|nibble| DIGITS.get(usize::from(nibble))).collect()
}
