//! Reads the body of a response into bounded memory.

use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::Body;

use crate::handlers::program::output::HeadAndTail;

/// The longest body that is read, in bytes. Bodies are not decompressed. A longer body is not read on,
/// and its connection is closed.
pub const MAX_BODY_BYTES: usize = 16 * 1024 * 1024;

/// All of a success; the beginning and the end of a failure.
#[derive(Debug)]
pub(crate) enum BodyBuffer {
    Whole(Vec<u8>),
    HeadAndTail(HeadAndTail),
}

#[derive(Debug)]
pub(crate) enum BodyEnd {
    Complete,
    Cut(hyper::Error),
    TooLong,
    TimedOut,
}

impl BodyBuffer {
    pub(crate) fn new(status: StatusCode) -> Self {
        if status.is_success() {
            Self::Whole(Vec::new())
        } else {
            Self::HeadAndTail(HeadAndTail::default())
        }
    }

    /// Reads until the end, an error, or the limit.
    pub(crate) async fn read(
        &mut self,
        mut body: impl Body<Data = Bytes, Error = hyper::Error> + Unpin,
    ) -> BodyEnd {
        let whole = matches!(self, Self::Whole(_));
        if whole && body.size_hint().lower() > MAX_BODY_BYTES as u64 {
            return BodyEnd::TooLong;
        }
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            let chunk = match frame.map(hyper::body::Frame::into_data) {
                Ok(Ok(chunk)) => chunk,
                // Trailers are not needed.
                Ok(Err(_)) => continue,
                Err(error) => return BodyEnd::Cut(error),
            };
            length += chunk.len();
            if length > MAX_BODY_BYTES {
                return BodyEnd::TooLong;
            }
            match self {
                Self::Whole(bytes) => bytes.extend_from_slice(&chunk),
                Self::HeadAndTail(ends) => ends.push(&chunk),
            }
        }
        BodyEnd::Complete
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Whole(bytes) => bytes,
            Self::HeadAndTail(ends) => ends.to_bytes(),
        }
    }
}
