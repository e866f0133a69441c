//! Sending one item.

use std::{sync::Arc, time::Duration};

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header::CONTENT_TYPE,
};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use redrive_core::{Cause, Code, Failure};
use redrive_store::ItemRecord;
use tokio::time::timeout;

use crate::{
    Clock, HttpSpec, InvalidHttp,
    http::{
        Answer, BodyEnd, Client, ERROR_BODY_WAIT, IDEMPOTENCY_KEY, Kept, Secrets, client, late,
        refused, unanswered, usual_headers, without_mark,
    },
    uploads::{Chunks, ContentError, body::CheckedBody},
};

/// Who an item is, for the server: names are percent-encoded.
const GROUP: HeaderName = HeaderName::from_static("redrive-group");
const NAME: HeaderName = HeaderName::from_static("redrive-item");
const SHA256: HeaderName = HeaderName::from_static("redrive-sha256");

/// What a header cannot carry, or not at its ends, and `%`.
const UNFIT: &AsciiSet = &CONTROLS.add(b' ').add(b'%');

/// The code of content that cannot be sent.
const CONTENT: &str = "content";

/// Statuses that are about who sends, not about what is sent.
const NOT_ABOUT_THE_ITEM: [StatusCode; 2] =
    [StatusCode::UNAUTHORIZED, StatusCode::PROXY_AUTHENTICATION_REQUIRED];

/// How sending an item ended.
#[derive(Debug)]
pub(super) enum Sent {
    /// The server has it.
    Acknowledged,
    /// The server, or the way there, or its content, was against it.
    Rejected(Failure),
    /// The server takes nothing from us.
    Refused(Failure),
    /// There was no way to the server; the item was not sent.
    Unreachable(Failure),
}

/// Sends items to one place.
pub(super) struct Sender {
    url: Uri,
    place: String,
    headers: HeaderMap,
    secrets: Secrets,
    client: Client<CheckedBody>,
    clock: Arc<dyn Clock>,
    time_limit: Duration,
}

impl Sender {
    /// Checks a specification. The environment is read here, once.
    pub(super) fn new(
        spec: &HttpSpec,
        clock: Arc<dyn Clock>,
        time_limit: Duration,
    ) -> Result<Self, InvalidHttp> {
        spec.check()?;
        let (given, secrets) = Secrets::read(&spec.headers)?;
        let mut headers = usual_headers();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        headers.extend(given);
        let (url, place, client) = (spec.url.clone(), spec.place(), client(spec)?);
        Ok(Self { url, place, headers, secrets, client, clock, time_limit })
    }

    pub(super) async fn send(
        &self,
        item: &ItemRecord,
        content: Result<Chunks, ContentError>,
    ) -> Sent {
        match timeout(self.time_limit, self.try_to_send(item, content)).await {
            Ok(sent) => sent,
            Err(_) => Sent::Rejected(late(self.time_limit)),
        }
    }

    async fn try_to_send(&self, item: &ItemRecord, content: Result<Chunks, ContentError>) -> Sent {
        let body = match content {
            Ok(chunks) => CheckedBody::begin(chunks, item).await,
            Err(problem) => Err(problem),
        };
        let body = match body {
            Ok(body) => body,
            Err(problem) => return Sent::Rejected(unsendable(&problem)),
        };
        let problem = body.problem();
        let response = match self.client.request(self.request(item, body)).await {
            Ok(response) => response,
            Err(_) if problem.get().is_some() => {
                return Sent::Rejected(problem.get().map(unsendable).unwrap_or_else(lost));
            }
            Err(error) => {
                let failure = unanswered(&error, &self.place);
                return match error.is_connect() {
                    true => Sent::Unreachable(failure),
                    false => Sent::Rejected(failure),
                };
            }
        };
        let (head, body) = response.into_parts();
        // Read so that the connection can be used again. What a success says further is of no use.
        let mut kept = Kept::new(StatusCode::BAD_REQUEST);
        let end = timeout(ERROR_BODY_WAIT, kept.read(body)).await.unwrap_or(BodyEnd::Late);
        if head.status.is_success() {
            return Sent::Acknowledged;
        }
        let bytes = kept.into_bytes();
        let text = self.secrets.hide(without_mark(&bytes));
        let answer = Answer { status: head.status, headers: &head.headers, text, end };
        let failure = refused(&answer, self.clock.now());
        match NOT_ABOUT_THE_ITEM.contains(&head.status) {
            true => Sent::Refused(failure),
            false => Sent::Rejected(failure),
        }
    }

    fn request(&self, item: &ItemRecord, body: CheckedBody) -> Request<CheckedBody> {
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url.clone();
        let headers = request.headers_mut();
        headers.clone_from(&self.headers);
        let own = [
            (IDEMPOTENCY_KEY, idempotency_key(item)),
            (GROUP, utf8_percent_encode(&item.group.group, UNFIT).to_string()),
            (NAME, utf8_percent_encode(&item.name, UNFIT).to_string()),
            (SHA256, item.sha256.clone()),
        ];
        for (name, value) in own {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.entry(name).or_insert(value);
            }
        }
        request
    }
}

/// The same in every attempt at an item. The hash tells items of two stores apart.
fn idempotency_key(item: &ItemRecord) -> String {
    format!("item:{}-{}", item.id, item.sha256.get(..16).unwrap_or(&item.sha256))
}

fn unsendable(problem: &ContentError) -> Failure {
    Failure::reported(None, Code::name(CONTENT), &problem.to_string())
}

fn lost() -> Failure {
    Failure::named(redrive_core::named::CONNECTION_RESET, Cause::Handler, "the request was lost")
}
