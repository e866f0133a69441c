//! A request for each unit (HANDLERS-4).
//!
//! Servers do what servers do: answer late, in part, without end, with a page of HTML, or not at all.
//! None of that may hang a worker, cost it memory or lose the outcome. So everything that is read has
//! a bound, the time limit covers the whole exchange, and whatever happened has a code of its own.
//!
//! The way of a call: [`template`] makes the body, [`secrets`] holds the headers, [`connection`] finds
//! the way, [`body`] keeps what matters of the answer, and [`conclusion`] makes an outcome of it, or
//! [`unanswered`] of its absence.

mod spec;

mod pointer;
mod template;

mod secrets;

mod addresses;
mod connection;

mod body;
mod unanswered;

mod conclusion;

use std::{borrow::Cow, fmt, pin::pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Request,
    header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, USER_AGENT},
};
use http_body_util::Full;
use hyper::body::Incoming;
use redrive_core::{Cause, Failure, named};
use tokio::time::{sleep, timeout};

use self::conclusion::{conclude, late};
pub use self::{
    body::MAX_BODY_BYTES,
    pointer::{InvalidPointer, JsonPointer},
    spec::{DEFAULT_CONNECT_TIMEOUT, HeaderSource, HttpSpec, InvalidHttp},
    template::{BodyTemplate, InvalidTemplate},
};
pub(crate) use self::{
    body::{BodyEnd, Kept},
    conclusion::{Answer, refused, too_late},
    connection::{Client, client},
    secrets::Secrets,
    unanswered::unanswered,
};
use crate::{Call, Clock, Handler, Outcome, Stop, SystemClock};

/// What tells a retry from new work: the same for every attempt at a unit.
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// How long the body of an error is waited for. Its status says enough.
pub(crate) const ERROR_BODY_WAIT: Duration = Duration::from_secs(2);

/// Handles each call by a request. It needs a runtime with I/O and time enabled, always the same one:
/// connections are used again.
///
/// A status from 200 to 299 is success. With [`HttpSpec::reply`] the part that it points to is the
/// answer. Without, a body that is a [reply](crate::reply) is that reply, any other JSON is the answer
/// as it is, other text is the answer as text, and nothing is no answer, which passes a run. Every
/// other status is a failure with that code; redirects are not followed.
///
/// Sent unless [`HttpSpec::headers`] says otherwise: `content-type: application/json` with a body,
/// `accept: application/json, */*`, `accept-encoding: identity`, `user-agent: redrive/VERSION`, and
/// `idempotency-key` with the unit, such as `run:7`, the same in every attempt.
pub struct HttpHandler {
    spec: HttpSpec,
    headers: HeaderMap,
    secrets: Secrets,
    client: Client<Full<Bytes>>,
    clock: Arc<dyn Clock>,
}

impl HttpHandler {
    /// Checks a specification. The environment is read here, once.
    pub fn new(spec: HttpSpec) -> Result<Self, InvalidHttp> {
        spec.check()?;
        let (given, secrets) = Secrets::read(&spec.headers)?;
        let mut headers = usual_headers();
        if spec.has_body() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        headers.extend(given);
        let client = client(&spec)?;
        Ok(Self { spec, headers, secrets, client, clock: Arc::new(SystemClock) })
    }

    /// With another clock, for tests. It says how far away a date in Retry-After is.
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    fn request(&self, call: &Call) -> Result<Request<Full<Bytes>>, Failure> {
        let body = if self.spec.has_body() { self.body(call)? } else { Bytes::new() };
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = self.spec.method.clone();
        *request.uri_mut() = self.spec.url.clone();
        request.headers_mut().clone_from(&self.headers);
        // Units are percent-encoded, so they always fit into a header.
        if let Ok(unit) = HeaderValue::from_str(&call.unit.to_string()) {
            request.headers_mut().entry(IDEMPOTENCY_KEY).or_insert(unit);
        }
        Ok(request)
    }

    fn body(&self, call: &Call) -> Result<Bytes, Failure> {
        let call = call.to_json();
        let body = match &self.spec.body {
            None => call,
            Some(template) => template.fill(&call).map_err(|pointer| {
                let what = format!("the body takes {pointer} of the call, which has no such value");
                Failure::named(named::BAD_TEMPLATE, Cause::Handler, &what)
            })?,
        };
        Ok(body.to_string().into())
    }

    /// Reads the body: for a success all of it, for a failure what comes soon.
    async fn read(body: Incoming, kept: &mut Kept) -> BodyEnd {
        match kept {
            Kept::Whole(_) => kept.read(body).await,
            Kept::Ends(_) => {
                timeout(ERROR_BODY_WAIT, kept.read(body)).await.unwrap_or(BodyEnd::Late)
            }
        }
    }
}

#[async_trait]
impl Handler for HttpHandler {
    async fn handle(&self, call: &Call, time_limit: Duration, mut stop: Stop) -> Outcome {
        if stop.is_told() {
            return Outcome::Stopped;
        }
        let request = match self.request(call) {
            Ok(request) => request,
            Err(failure) => return Outcome::Failed(failure),
        };
        let mut over = pin!(sleep(time_limit));
        let sent = tokio::select! {
            biased;
            sent = self.client.request(request) => sent,
            () = stop.told() => return Outcome::Stopped,
            () = &mut over => return late(time_limit),
        };
        let (head, body) = match sent {
            Ok(response) => response.into_parts(),
            Err(error) => return Outcome::Failed(unanswered(&error, &self.spec.place())),
        };
        let mut kept = Kept::new(head.status);
        let end = tokio::select! {
            biased;
            end = Self::read(body, &mut kept) => end,
            () = stop.told() => {
                if head.status.is_success() {
                    return Outcome::Stopped;
                }
                // It has failed already; handed back, it would only fail again.
                BodyEnd::Late
            }
            () = &mut over => BodyEnd::Late,
        };
        let bytes = kept.into_bytes();
        let text = self.secrets.hide(without_mark(&bytes));
        let answer = Answer { status: head.status, headers: &head.headers, text, end };
        conclude(call.kind(), answer, self.spec.reply.as_ref(), time_limit, self.clock.now())
    }
}

impl fmt::Debug for HttpHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpHandler").field("spec", &self.spec).finish_non_exhaustive()
    }
}

/// What every request carries.
pub(crate) fn usual_headers() -> HeaderMap {
    let agent = concat!("redrive/", env!("CARGO_PKG_VERSION"));
    HeaderMap::from_iter([
        (ACCEPT, HeaderValue::from_static("application/json, */*")),
        (ACCEPT_ENCODING, HeaderValue::from_static("identity")),
        (USER_AGENT, HeaderValue::from_static(agent)),
    ])
}

/// The text of a body. Some servers begin theirs with a byte order mark, which is no JSON.
pub(crate) fn without_mark(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes))
}
