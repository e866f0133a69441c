//! Refuses line feeds without a carriage return in the head of a request.
//!
//! hyper accepts a bare line feed as the end of a line. A proxy may not, and would see other headers than this server
//! (request smuggling). The bytes are checked before hyper parses them: a bare line feed becomes a NUL, which hyper
//! answers with `400`.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    http::{HeaderValue, header},
    response::Response,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection whose request heads have whole line ends only.
pub(crate) struct LineEnds<S> {
    stream: S,
    scanner: HeadScanner,
}

impl<S> LineEnds<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, scanner: HeadScanner::default() }
    }
}

impl LineEnds<()> {
    /// Closes the connection after a request with a chunked body: the scanner does not know where the next head
    /// starts.
    pub(crate) fn end_after(response: &mut Response) {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
}

/// Finds the heads of requests among the bytes of a connection.
#[derive(Default)]
struct HeadScanner {
    /// The start of the current line, long enough for the headers that matter.
    line: Vec<u8>,
    line_length: usize,
    last: u8,
    /// Whether the request line was read.
    in_headers: bool,
    content_length: u64,
    /// Bytes of the body that follow.
    body_left: u64,
    /// Whether a length cannot be read here as hyper reads it. Nothing more gets through.
    refused: bool,
}

const CONTENT_LENGTH: &[u8] = b"content-length:";
const TRANSFER_ENCODING: &[u8] = b"transfer-encoding:";
const MAX_LINE: usize = 64;

impl HeadScanner {
    fn scan(&mut self, bytes: &mut [u8]) {
        let mut at = 0;
        while let Some(rest) = bytes.get_mut(at..).filter(|rest| !rest.is_empty()) {
            if self.body_left > 0 {
                let skipped = rest.len().min(usize::try_from(self.body_left).unwrap_or(usize::MAX));
                self.body_left -= skipped as u64;
                at += skipped;
                continue;
            }
            at += 1;
            if let Some(byte) = rest.first_mut() {
                self.head_byte(byte);
            }
        }
    }

    fn head_byte(&mut self, byte: &mut u8) {
        match *byte {
            _ if self.refused => *byte = 0,
            b'\n' if self.last != b'\r' => *byte = 0,
            b'\n' => self.end_line(),
            byte => {
                self.line_length += 1;
                if self.line.len() < MAX_LINE {
                    self.line.push(byte.to_ascii_lowercase());
                }
            }
        }
        self.last = *byte;
    }

    fn end_line(&mut self) {
        // The carriage return is part of the line.
        if self.line_length > 1 {
            self.in_headers = true;
            if let Some(value) = self.line.strip_prefix(CONTENT_LENGTH) {
                let value = str::from_utf8(value).unwrap_or_default().trim();
                match value.parse() {
                    Ok(length) if self.line_length <= MAX_LINE => {
                        self.content_length = self.content_length.max(length);
                    }
                    _ => self.refused = true,
                }
            } else if self.line.starts_with(TRANSFER_ENCODING) {
                // The connection ends after this request.
                self.content_length = u64::MAX;
            }
        } else if self.in_headers {
            self.body_left = std::mem::take(&mut self.content_length);
            self.in_headers = false;
        }
        self.line.clear();
        self.line_length = 0;
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LineEnds<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Some(new) = buffer.filled_mut().get_mut(before..) {
            self.scanner.scan(new);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LineEnds<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sent: &str, expected: &str) {
        // However the bytes are split.
        for size in 1..=sent.len() {
            let mut scanner = HeadScanner::default();
            let mut read = sent.as_bytes().to_vec();
            read.chunks_mut(size).for_each(|chunk| scanner.scan(chunk));
            assert_eq!(String::from_utf8(read).unwrap(), expected, "in pieces of {size}");
        }
    }

    #[test]
    fn bare_line_feeds_are_refused_in_heads_and_kept_in_bodies() {
        let whole =
            "\r\nPOST / HTTP/1.1\r\nA: b\r\nContent-Length: 4\r\n\r\na\n\nbGET / HTTP/1.1\r\n\r\n";
        check(whole, whole);
        let chunked = "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n\n\r\n0\r\n\r\n";
        check(chunked, chunked);
        check("GET / HTTP/1.1\nA: b\r\n\r\n", "GET / HTTP/1.1\0A: b\r\n\r\n");
        check("GET / HTTP/1.1\r\nA: b\nB: c\r\n\r\n", "GET / HTTP/1.1\r\nA: b\0B: c\r\n\r\n");
        check("GET / HTTP/1.1\r\nA: b\r\n\n", "GET / HTTP/1.1\r\nA: b\r\n\0");
        for length in [format!("{:>60}", 5), "five".to_owned()] {
            let head = format!("POST / HTTP/1.1\r\nContent-Length: {length}\r\n");
            check(&format!("{head}\r\nA"), &format!("{head}\0\0\0"));
        }
        let second = "GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\nA: b\r\n\r\n";
        check(second, &second.replace("1.1\nA", "1.1\0A"));
    }
}
