//! Reads a file line by line in bounded memory.

use std::io::{self, BufRead, BufReader, Read};

/// The longest line: the largest payload, with room for escapes and the other fields.
pub(crate) const MAX_LINE_BYTES: usize = 4 * 1024 * 1024;

/// Some editors write a byte order mark at the start of a file.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Numbers lines from 1.
pub(crate) struct LineReader<R> {
    source: BufReader<R>,
    line: Vec<u8>,
    number: u64,
    bytes: u64,
}

pub(crate) enum InputLine<'a> {
    /// The text without the line feed.
    Whole(&'a [u8]),
    /// The line has more than [`MAX_LINE_BYTES`] and was skipped.
    TooLong,
}

impl<R: Read> LineReader<R> {
    pub(crate) fn new(source: BufReader<R>) -> Self {
        Self { source, line: Vec::new(), number: 0, bytes: 0 }
    }

    /// The number of the last line.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether reading the next line may block.
    pub(crate) fn may_wait(&self) -> bool {
        !self.source.buffer().contains(&b'\n')
    }

    /// The next line; `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<InputLine<'_>>> {
        self.line.clear();
        let mut too_long = false;
        let mut has_bytes = false;
        loop {
            let part = match self.source.fill_buf() {
                Ok(part) => part,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if part.is_empty() {
                break;
            }
            has_bytes = true;
            let end = part.iter().position(|byte| *byte == b'\n');
            let (text, taken) = match end {
                Some(end) => (part.get(..end).unwrap_or_default(), end + 1),
                None => (part, part.len()),
            };
            if self.line.len() + text.len() > MAX_LINE_BYTES {
                too_long = true;
            } else if !too_long {
                self.line.extend_from_slice(text);
            }
            self.bytes += taken as u64;
            self.source.consume(taken);
            if end.is_some() {
                break;
            }
        }
        if !has_bytes {
            return Ok(None);
        }
        self.number += 1;
        if too_long {
            self.line = Vec::new();
            return Ok(Some(InputLine::TooLong));
        }
        let line = self.line.as_slice();
        let first = self.number == 1;
        let text = line.strip_prefix(BYTE_ORDER_MARK).filter(|_| first).unwrap_or(line);
        Ok(Some(InputLine::Whole(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads through a buffer of three bytes, so that lines come in parts.
    #[track_caller]
    fn check(text: &[u8], expected: &[&[u8]]) {
        let mut lines = LineReader::new(BufReader::with_capacity(3, text));
        let mut read = Vec::new();
        while let Ok(Some(line)) = lines.next() {
            read.push(match line {
                InputLine::Whole(line) => line.to_vec(),
                InputLine::TooLong => b"too long".to_vec(),
            });
        }
        assert_eq!(read, expected);
        assert_eq!(lines.number(), expected.len() as u64);
        assert_eq!(lines.bytes(), text.len() as u64);
    }

    #[test]
    fn lines_end_at_a_newline_or_at_the_end_of_the_file() {
        check(b"", &[]);
        check(b"\n", &[b""]);
        check(b"one\n\nthree", &[b"one", b"", b"three"]);
        check(b"one\r\ntwo\n", &[b"one\r", b"two"]);
    }

    #[test]
    fn a_byte_order_mark_is_passed_over_where_a_file_begins() {
        check(b"\xef\xbb\xbf{}\n\xef\xbb\xbf{}", &[b"{}", b"\xef\xbb\xbf{}"]);
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over_and_the_next_one_is_read() {
        let mut text = vec![b'x'; MAX_LINE_BYTES];
        check(&text, &[&text.clone()]);
        text.push(b'x');
        check(&text, &[b"too long"]);
        text.extend_from_slice(b"\nnext\n");
        check(&text, &[b"too long", b"next"]);
    }
}
