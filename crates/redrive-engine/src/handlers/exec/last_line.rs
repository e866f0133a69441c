//! Keeps the last line of a program's output, which may be its reply.

use crate::handlers::reply::MAX_REPLY_BYTES;

/// Keeps the last line that is not blank.
#[derive(Debug, Default)]
pub(super) struct LastLine {
    /// The last complete line.
    last: LineBuffer,
    /// The line after it, which has no newline yet.
    open: LineBuffer,
}

impl LastLine {
    pub(super) fn push(&mut self, chunk: &[u8]) {
        let Some(newline) = chunk.iter().rposition(is_newline) else {
            return self.open.push(chunk);
        };
        let (whole, open) = chunk.split_at(newline);
        let mut lines = whole.splitn(2, is_newline);
        self.open.push(lines.next().unwrap_or_default());
        // From the end, so that of a million lines only the last one is examined.
        let others = lines.next().unwrap_or_default();
        match others.rsplit(is_newline).find(|line| !line.trim_ascii().is_empty()) {
            Some(line) => self.last.set(line),
            None if self.open.is_blank() => {}
            None => std::mem::swap(&mut self.last, &mut self.open),
        }
        self.open.set(open.get(1..).unwrap_or_default());
    }

    /// Empty if there was no line; longer than [`MAX_REPLY_BYTES`] if the line was too long.
    pub(super) fn line(&self) -> &[u8] {
        let line = if self.open.is_blank() { &self.last } else { &self.open };
        if line.0.len() > MAX_REPLY_BYTES { &line.0 } else { line.0.trim_ascii_end() }
    }
}

fn is_newline(byte: &u8) -> bool {
    *byte == b'\n'
}

/// A line without leading blanks, of at most one byte more than a reply may have.
#[derive(Debug, Default)]
struct LineBuffer(Vec<u8>);

impl LineBuffer {
    fn push(&mut self, bytes: &[u8]) {
        let bytes = if self.is_blank() { bytes.trim_ascii_start() } else { bytes };
        let room = (MAX_REPLY_BYTES + 1).saturating_sub(self.0.len());
        self.0.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    }

    fn set(&mut self, bytes: &[u8]) {
        self.0.clear();
        self.push(bytes);
    }

    fn is_blank(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests;
