//! A service that allows a number of requests in a second, from a bucket of tokens, and counts what it was asked.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use redrive::http::Uri;

use crate::{
    error::BenchError,
    reply_server::{ANSWER, ReplyServer},
};

/// Requests that the service allows in a second, and at once after a pause.
pub(crate) const RATE: f64 = 100.0;
const BURST: f64 = 10.0;

const RESPONSE_TIME: Duration = Duration::from_millis(20);

/// Seconds, as the header has them: the shortest wait that can be named.
const REFUSAL: &[u8] =
    b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n";

pub(crate) struct LimitedApi {
    server: ReplyServer,
    bucket: Arc<Mutex<Bucket>>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    /// The first request and the last one.
    span: Option<(Instant, Instant)>,
    allowed: u32,
    refused: u32,
}

/// What a service saw.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ApiReport {
    pub(crate) allowed: u32,
    /// The share of the requests that were refused.
    pub(crate) refused: f64,
    /// The share that was used of what the service allowed between the first request and the last one.
    pub(crate) used: f64,
    pub(crate) seconds: f64,
}

impl LimitedApi {
    pub(crate) fn start() -> Result<Self, BenchError> {
        let bucket = Bucket { tokens: BURST, span: None, allowed: 0, refused: 0 };
        let bucket = Arc::new(Mutex::new(bucket));
        let asked = bucket.clone();
        let reply = move || {
            let mut bucket = asked.lock().unwrap_or_else(PoisonError::into_inner);
            Cow::Borrowed(if bucket.take(Instant::now()) { ANSWER } else { REFUSAL })
        };
        let server = ReplyServer::with_replies(RESPONSE_TIME, Arc::new(reply))?;
        Ok(Self { server, bucket })
    }

    pub(crate) fn url(&self) -> &Uri {
        &self.server.url
    }

    pub(crate) fn report(&self) -> ApiReport {
        let bucket = *self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let span = bucket.span.map(|(first, last)| last.duration_since(first));
        let seconds = span.unwrap_or_default().as_secs_f64();
        let requests = f64::from(bucket.allowed.saturating_add(bucket.refused));
        ApiReport {
            allowed: bucket.allowed,
            refused: f64::from(bucket.refused) / requests.max(1.0),
            used: f64::from(bucket.allowed) / (BURST + RATE * seconds),
            seconds,
        }
    }
}

impl Bucket {
    fn take(&mut self, now: Instant) -> bool {
        let (first, last) = self.span.unwrap_or((now, now));
        self.span = Some((first, now));
        let since = now.duration_since(last).as_secs_f64();
        self.tokens = (self.tokens + since * RATE).min(BURST);
        let allowed = self.tokens >= 1.0;
        if allowed {
            self.tokens -= 1.0;
            self.allowed += 1;
        } else {
            self.refused += 1;
        }
        allowed
    }
}
