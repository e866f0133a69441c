//! Sends one item.

use std::{borrow::Cow, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header::CONTENT_TYPE,
    response::Parts,
};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use redrive_core::{AttemptNumber, Code, Failure, Unit};
use redrive_store::ItemRecord;
use tokio::time::timeout;

use crate::{
    Clock, HttpSpec, InvalidHttp,
    handlers::http::{
        BodyBuffer, BodyEnd, ERROR_BODY_WAIT, HttpClient, IDEMPOTENCY_KEY, NoResponse,
        ReceivedResponse, ResponseBody, Secrets, ServiceConventions, TRACEPARENT_HEADER,
        default_headers, no_response, status_failure, timeout_failure, without_bom,
    },
    traces::Traces,
    uploads::{Chunks, Content, ContentError, body::CheckedBody, content::CONTENT},
};

/// Characters that are not allowed in a header value, or not at its ends, and `%`.
const UNSAFE: &AsciiSet = &CONTROLS.add(b' ').add(b'%');

/// Statuses that are about the sender and not about the item.
const SENDER_REFUSED: [StatusCode; 2] =
    [StatusCode::UNAUTHORIZED, StatusCode::PROXY_AUTHENTICATION_REQUIRED];

#[derive(Debug)]
pub(super) enum SendResult {
    Acknowledged,
    /// The server refused the item, the connection broke, or the content has changed.
    Rejected(Failure),
    /// The server refuses this sender.
    Refused(Failure),
    /// The server could not be reached; the item was not sent.
    Unreachable(Failure),
    /// The content could not be reached; the item was not sent, or not completely.
    Unreadable(Failure),
    /// The folder of the content is not there; the item was not sent.
    NoFolder(Failure),
    /// The content does not exist; the item was not sent.
    Missing(Failure),
}

type ValueOf = fn(&ItemRecord) -> Cow<'_, str>;

/// Headers that identify an item. Names are percent-encoded.
const ITEM_HEADERS: [(HeaderName, ValueOf); 4] = [
    (IDEMPOTENCY_KEY, |item| idempotency_key(item).into()),
    (HeaderName::from_static("redrive-group"), |item| encoded(&item.group.group)),
    (HeaderName::from_static("redrive-item"), |item| encoded(&item.name)),
    (HeaderName::from_static("redrive-sha256"), |item| item.sha256.as_str().into()),
];

/// Sends items to one URL.
pub(super) struct ItemSender {
    target: Uri,
    server: String,
    headers: HeaderMap,
    /// The [`ITEM_HEADERS`] that the specification does not set.
    item_headers: Vec<(HeaderName, ValueOf)>,
    secrets: Secrets,
    conventions: ServiceConventions,
    client: HttpClient<CheckedBody>,
    content: Arc<dyn Content>,
    clock: Arc<dyn Clock>,
    time_limit: Duration,
}

impl ItemSender {
    /// Checks a specification. Environment variables are read here, once.
    pub(super) fn new(
        spec: &HttpSpec,
        content: Arc<dyn Content>,
        clock: Arc<dyn Clock>,
        time_limit: Duration,
    ) -> Result<Self, InvalidHttp> {
        spec.check()?;
        let (given, secrets) = Secrets::read(&spec.headers)?;
        let mut headers = default_headers(spec);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        headers.extend(given);
        let item_headers: Vec<_> =
            ITEM_HEADERS.into_iter().filter(|(name, _)| !headers.contains_key(name)).collect();
        // Placeholders, so that the map does not grow for each item.
        headers.extend(
            item_headers.iter().map(|(name, _)| (name.clone(), HeaderValue::from_static(""))),
        );
        let (target, server, client) = (spec.target(), spec.server(), HttpClient::for_spec(spec)?);
        Ok(Self {
            target,
            server,
            headers,
            item_headers,
            secrets,
            conventions: spec.conventions.clone(),
            client,
            content,
            clock,
            time_limit,
        })
    }

    pub(super) async fn send(
        &self,
        item: &ItemRecord,
        content: Result<Chunks, ContentError>,
        traces: &Traces,
    ) -> SendResult {
        match timeout(self.time_limit, self.try_send(item, content, traces)).await {
            Ok(sent) => sent,
            Err(_) => SendResult::Rejected(timeout_failure(self.time_limit)),
        }
    }

    async fn try_send(
        &self,
        item: &ItemRecord,
        content: Result<Chunks, ContentError>,
        traces: &Traces,
    ) -> SendResult {
        let (mut content, mut anew) = (content, false);
        let (head, body) = loop {
            let body = match content {
                Ok(chunks) => CheckedBody::begin(chunks, item.size_bytes, &item.sha256).await,
                Err(problem) => Err(problem),
            };
            let body = match body {
                Ok(body) => body,
                Err(problem) => return content_failure(&problem),
            };
            let (problem, request) = (body.problem(), self.request(item, body, traces));
            let error = match self.exchange(request, anew).await {
                Ok(answer) => break answer,
                Err(error) => error,
            };
            if let Some(problem) = problem.get() {
                return content_failure(problem);
            }
            let failure = no_response(&error, &self.server);
            match error {
                NoResponse::NotConnected(_) => return SendResult::Unreachable(failure),
                NoResponse::Broken(_) => return SendResult::Rejected(failure),
                // The idempotency key lets the server recognise an item that it did receive.
                NoResponse::Dropped(_) => {
                    anew = true;
                    let opened = self.content.open(vec![item.content_url.clone()]).await.pop();
                    content = opened.unwrap_or_else(|| Ok(Chunks::whole(Bytes::new())));
                }
            }
        };
        // Read to the end so that the connection can be reused. The body of a success is not needed.
        let mut buffer = BodyBuffer::new(StatusCode::BAD_REQUEST);
        let end = timeout(ERROR_BODY_WAIT, buffer.read(body)).await.unwrap_or(BodyEnd::TimedOut);
        if head.status.is_success() {
            return SendResult::Acknowledged;
        }
        let bytes = buffer.into_bytes();
        let text = self.secrets.redact(without_bom(&bytes));
        let answer = ReceivedResponse { status: head.status, headers: &head.headers, text, end };
        let failure = status_failure(&answer, &self.conventions, self.clock.now());
        match SENDER_REFUSED.contains(&head.status) {
            true => SendResult::Refused(failure),
            false => SendResult::Rejected(failure),
        }
    }

    async fn exchange(
        &self,
        request: Request<CheckedBody>,
        anew: bool,
    ) -> Result<(Parts, ResponseBody<CheckedBody>), NoResponse> {
        match anew {
            true => self.client.request_anew(request).await,
            false => self.client.request(request).await,
        }
    }

    fn request(
        &self,
        item: &ItemRecord,
        body: CheckedBody,
        traces: &Traces,
    ) -> Request<CheckedBody> {
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.target.clone();
        let headers = request.headers_mut();
        headers.clone_from(&self.headers);
        for (name, value) in &self.item_headers {
            // Cannot fail: all characters that headers do not allow are encoded.
            if let Ok(value) = HeaderValue::from_str(&value(item)) {
                headers.insert(name, value);
            }
        }
        if let Some(parent) = traceparent(item, traces) {
            headers.entry(TRACEPARENT_HEADER).or_insert(parent);
        }
        request
    }
}

fn encoded(name: &str) -> Cow<'_, str> {
    utf8_percent_encode(name, UNSAFE).into()
}

/// The same in every attempt at an item. The hash distinguishes items of two stores.
fn idempotency_key(item: &ItemRecord) -> String {
    format!("item:{}-{}", item.id, item.sha256.get(..16).unwrap_or(&item.sha256))
}

/// The span of the attempt, which gets the next number.
fn traceparent(item: &ItemRecord, traces: &Traces) -> Option<HeaderValue> {
    let number = AttemptNumber(item.last_attempt.0.saturating_add(1));
    let parent = traces.traceparent(&Unit::Item(item.id), number)?;
    HeaderValue::from_str(&parent).ok()
}

fn content_failure(problem: &ContentError) -> SendResult {
    let failure = Failure::reported(None, Code::name(CONTENT), &problem.to_string());
    match problem {
        ContentError::Unreachable(_) => SendResult::Unreadable(failure),
        ContentError::NoFolder { .. } => SendResult::NoFolder(failure),
        ContentError::Missing { .. } => SendResult::Missing(failure),
        _ => SendResult::Rejected(failure),
    }
}
