//! One HTTP request per call (HANDLERS-4), and the HTTP client of the whole engine.
//!
//! Servers respond late, partially, without end, with a page of HTML, or not at all. None of that may
//! hang a worker, exhaust its memory or lose the outcome. So everything that is read has a limit, the
//! time limit covers the whole exchange, and every kind of failure has its own code.
//!
//! The path of a call: [`template`] makes the body and [`secrets`] the headers. [`client`] sends the
//! request over a [`connection`] that [`connector`] opens, with the [`tls`] set-up of the engine. [`body`]
//! keeps the part of the response that matters, and [`conclusion`] makes an outcome of it; [`no_response`]
//! makes a failure when there is none. An extractor sends one request per page of rows ([`paging`]), and
//! cuts the rows out of the response with [`raw_json`].

mod spec;

mod template;

mod secrets;

mod addresses;
mod tls;

mod connector;

mod connection;

mod client;

mod body;
mod no_response;

mod conclusion;

mod paging;
mod raw_json;

use std::{
    borrow::Cow,
    fmt,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Request, Uri,
    header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HOST, USER_AGENT},
    response::Parts,
    uri::PathAndQuery,
};
use http_body_util::Full;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use redrive_core::{Cause, Failure, HumanDuration, named};
use redrive_retry::monotonic;
use serde_json::Value;
use tokio::time::{Sleep, sleep, timeout};

use self::conclusion::conclude;
pub use self::{
    body::MAX_BODY_BYTES,
    paging::{HttpExtractor, MAX_PAGES, Paging},
    spec::{DEFAULT_CONNECT_TIMEOUT, HeaderSource, HttpSpec, InvalidHttp, ServiceConventions},
    template::{BodyTemplate, InvalidTemplate},
};
pub(crate) use self::{
    body::{BodyBuffer, BodyEnd},
    client::{HttpClient, NoResponse, ResponseBody},
    conclusion::{ReceivedResponse, status_failure, timeout_failure},
    no_response::no_response,
    spec::host_header,
};
#[cfg(feature = "objects")]
pub(crate) use self::{
    connector::ServerConnector,
    tls::{client_config, native_roots},
};
pub(crate) use crate::handlers::secrets::Secrets;
use crate::{Call, Clock, Handler, Outcome, Stop, SystemClock, traces::TRACEPARENT};

/// Lets a server recognise a retry: the value is the same for every attempt at a unit.
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

pub(crate) const TRACEPARENT_HEADER: HeaderName = HeaderName::from_static(TRACEPARENT);

/// How long to wait for the body of an error. The status alone decides.
pub(crate) const ERROR_BODY_WAIT: Duration = Duration::from_secs(2);

/// Sends one request per call. Needs a tokio runtime with I/O and time enabled, and always the same one:
/// connections are reused.
///
/// A status from 200 to 299 is success. With [`HttpSpec::reply`], the part of the body that it points to
/// is the answer. Without it, a body that is a [reply](crate::handlers::reply) is that reply, any other
/// JSON is the answer, other text is the answer as a string, and an empty body is no answer, which passes
/// a run. Every other status is a failure with that code. Redirects are not followed.
///
/// Sent unless [`HttpSpec::headers`] says otherwise: `content-type: application/json` with a body,
/// `accept: application/json, */*`, `accept-encoding: identity`, `user-agent: redrive/VERSION`, and
/// `idempotency-key` with the unit, such as `run:7`, the same in every attempt.
pub struct HttpHandler {
    spec: HttpSpec,
    /// The path and the constant part of the query.
    target: Uri,
    headers: HeaderMap,
    secrets: Secrets,
    client: HttpClient<Full<Bytes>>,
    clock: Arc<dyn Clock>,
}

impl HttpHandler {
    /// Checks a specification. Environment variables are read here, once.
    pub fn new(spec: HttpSpec) -> Result<Self, InvalidHttp> {
        spec.check()?;
        let (given, secrets) = Secrets::read(&spec.headers)?;
        let mut headers = default_headers(&spec);
        if spec.has_body() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        headers.extend(given);
        let (client, target) = (HttpClient::for_spec(&spec)?, spec.target());
        Ok(Self { spec, target, headers, secrets, client, clock: Arc::new(SystemClock) })
    }

    /// Sets the clock, for tests. The clock turns a date in `retry-after` into a delay.
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    fn request_for(&self, call: &Call) -> Result<Request<Full<Bytes>>, Failure> {
        let key = call.unit.to_string();
        if self.spec.body.is_none() && self.spec.query.is_empty() && self.spec.has_body() {
            let request = self.assemble(call.to_text().into(), self.target.clone(), &key);
            return Ok(with_traceparent(request, call.traceparent()));
        }
        self.request(&call.to_json(), &key)
    }

    /// The request for a call in JSON. `key` is the idempotency key.
    fn request(&self, call: &Value, key: &str) -> Result<Request<Full<Bytes>>, Failure> {
        let body = if self.spec.has_body() { self.body(call)? } else { Bytes::new() };
        let request = self.assemble(body, self.target_for(call)?, key);
        Ok(with_traceparent(request, call.get(TRACEPARENT).and_then(Value::as_str)))
    }

    fn assemble(&self, body: Bytes, target: Uri, key: &str) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = self.spec.method.clone();
        *request.uri_mut() = target;
        request.headers_mut().clone_from(&self.headers);
        // Units are percent-encoded, so every unit is a valid header value.
        if let Ok(key) = HeaderValue::from_str(key) {
            request.headers_mut().entry(IDEMPOTENCY_KEY).or_insert(key);
        }
        request
    }

    fn target_for(&self, call: &Value) -> Result<Uri, Failure> {
        if self.spec.query.is_empty() {
            return Ok(self.target.clone());
        }
        let mut query = self.target.query().unwrap_or_default().to_owned();
        for (name, template) in &self.spec.query {
            let value = match fill(template, call, "the query")? {
                Value::Null => continue,
                Value::String(text) => text,
                scalar @ (Value::Bool(_) | Value::Number(_)) => scalar.to_string(),
                Value::Array(_) | Value::Object(_) => {
                    let what = format!(
                        "the value of {name} in the query must be a string, number or boolean, not a list or an object"
                    );
                    return Err(Failure::named(named::BAD_TEMPLATE, Cause::Handler, &what));
                }
            };
            let encode = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
            let and = if query.is_empty() { "" } else { "&" };
            query.push_str(&format!("{and}{}={}", encode(name), encode(&value)));
        }
        if query.is_empty() {
            return Ok(self.target.clone());
        }
        let target = PathAndQuery::try_from(format!("{}?{query}", self.target.path()));
        target.map(Uri::from).map_err(|error| {
            let what = format!("the URL with its query is invalid: {error}");
            Failure::named(named::BAD_TEMPLATE, Cause::Handler, &what)
        })
    }

    fn body(&self, call: &Value) -> Result<Bytes, Failure> {
        let body = match &self.spec.body {
            None => Cow::Borrowed(call),
            Some(template) => Cow::Owned(fill(template, call, "the body")?),
        };
        Ok(body.to_string().into())
    }

    /// Logs a request without its query, which may hold a key, and what came of it.
    fn log(&self, call: &Call, took: Duration, answer: &str) {
        let (method, server, path) = (&self.spec.method, self.spec.server(), self.target.path());
        let took = HumanDuration::from(took);
        call.log.line(&format!("{method} {server}{path} after {took}: {answer}"));
    }

    /// Sends a request again, once, if the server closed a reused connection instead of responding: the idempotency key
    /// lets a server recognise a request that it did receive.
    async fn response_to(
        &self,
        request: impl Fn() -> Result<Request<Full<Bytes>>, Failure>,
    ) -> Result<(Parts, ResponseBody<Full<Bytes>>), Failure> {
        let response = match self.client.request(request()?).await {
            Err(NoResponse::Dropped(_)) => self.client.request_anew(request()?).await,
            response => response,
        };
        response.map_err(|error| no_response(&error, &self.spec.server()))
    }

    /// Sends a request and reads the response, until the deadline or a stop.
    async fn send(
        &self,
        request: impl Fn() -> Result<Request<Full<Bytes>>, Failure>,
        mut deadline: Pin<&mut Sleep>,
        stop: &mut Stop,
    ) -> Result<Exchange, RequestError> {
        let sent = tokio::select! {
            biased;
            sent = self.response_to(request) => sent,
            () = stop.stopped() => return Err(RequestError::Stopped),
            () = deadline.as_mut() => return Err(RequestError::TimedOut),
        };
        let (head, body) = sent.map_err(RequestError::Failed)?;
        let mut kept = BodyBuffer::new(head.status);
        let end = tokio::select! {
            biased;
            end = Self::read(body, &mut kept) => end,
            () = stop.stopped() => {
                if head.status.is_success() {
                    return Err(RequestError::Stopped);
                }
                // The attempt has failed already; released, the unit would only fail again.
                BodyEnd::TimedOut
            }
            () = deadline => BodyEnd::TimedOut,
        };
        Ok(Exchange { head, bytes: kept.into_bytes(), end })
    }

    /// The response with its secrets redacted.
    fn answer<'a>(&self, exchange: &'a mut Exchange) -> ReceivedResponse<'a> {
        let end = std::mem::replace(&mut exchange.end, BodyEnd::TimedOut);
        let text = self.secrets.redact(without_bom(&exchange.bytes));
        ReceivedResponse {
            status: exchange.head.status,
            headers: &exchange.head.headers,
            text,
            end,
        }
    }

    /// Reads all of a success, and of a failure what arrives soon.
    async fn read(body: ResponseBody<Full<Bytes>>, kept: &mut BodyBuffer) -> BodyEnd {
        match kept {
            BodyBuffer::Whole(_) => kept.read(body).await,
            BodyBuffer::HeadAndTail(_) => {
                timeout(ERROR_BODY_WAIT, kept.read(body)).await.unwrap_or(BodyEnd::TimedOut)
            }
        }
    }
}

/// Names the span that a request belongs to. A configured header takes precedence.
fn with_traceparent<B>(mut request: Request<B>, span: Option<&str>) -> Request<B> {
    if let Some(Ok(span)) = span.map(HeaderValue::from_str) {
        request.headers_mut().entry(TRACEPARENT_HEADER).or_insert(span);
    }
    request
}

#[async_trait]
impl Handler for HttpHandler {
    async fn handle(&self, call: &Call, time_limit: Duration, mut stop: Stop) -> Outcome {
        if stop.is_stopped() {
            return Outcome::Stopped;
        }
        let deadline = pin!(sleep(time_limit));
        let started = monotonic();
        let mut exchange = match self.send(|| self.request_for(call), deadline, &mut stop).await {
            Ok(exchange) => exchange,
            Err(error) => {
                self.log(call, started.elapsed(), "no response");
                return error.outcome(time_limit);
            }
        };
        let answer = self.answer(&mut exchange);
        self.log(call, started.elapsed(), &answer.in_words());
        conclude(call.kind(), answer, &self.spec, time_limit, self.clock.now())
    }
}

struct Exchange {
    head: Parts,
    bytes: Vec<u8>,
    end: BodyEnd,
}

/// Why a request has no response.
enum RequestError {
    Failed(Failure),
    TimedOut,
    Stopped,
}

impl RequestError {
    fn outcome(self, time_limit: Duration) -> Outcome {
        match self {
            Self::Failed(failure) => Outcome::Failed(failure),
            Self::TimedOut => Outcome::Failed(timeout_failure(time_limit)),
            Self::Stopped => Outcome::Stopped,
        }
    }
}

fn fill(template: &BodyTemplate, call: &Value, part: &str) -> Result<Value, Failure> {
    template.fill(call).map_err(|pointer| {
        let what = format!("{part} uses {pointer}, and the call has no such value");
        Failure::named(named::BAD_TEMPLATE, Cause::Handler, &what)
    })
}

impl fmt::Debug for HttpHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpHandler").field("spec", &self.spec).finish_non_exhaustive()
    }
}

pub(crate) fn default_headers(spec: &HttpSpec) -> HeaderMap {
    let agent = concat!("redrive/", env!("CARGO_PKG_VERSION"));
    HeaderMap::from_iter([
        (HOST, host_header(&spec.url)),
        (ACCEPT, HeaderValue::from_static("application/json, */*")),
        (ACCEPT_ENCODING, HeaderValue::from_static("identity")),
        (USER_AGENT, HeaderValue::from_static(agent)),
    ])
}

/// The text of a body without a byte order mark, which some servers send and no JSON parser accepts.
pub(crate) fn without_bom(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes))
}
