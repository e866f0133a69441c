//! Extractors whose rejections are [`ProblemDetails`].

use std::borrow::Cow;

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::{
        DefaultBodyLimit, FromRequest, FromRequestParts, Multipart, Request,
        path::ErrorKind,
        rejection::{BytesRejection, PathRejection},
    },
    http::{StatusCode, header, request::Parts},
    response::IntoResponse,
};
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;

use crate::{ServerLimits, problem::ProblemDetails};

/// Query parameters. Unknown ones are rejected: ignoring a filter would select too much.
pub(crate) struct QueryParams<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryParams<T> {
    type Rejection = ProblemDetails;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ProblemDetails> {
        reject_nul(parts.uri.query().unwrap_or_default())?;
        axum::extract::Query::try_from_uri(&parts.uri)
            .map(|axum::extract::Query(params)| Self(params))
            .map_err(|error| invalid_fields(&error.body_text()))
    }
}

/// In the words of [`Params`](crate::params::Params): "unknown field `knd`", and what is allowed.
fn invalid_fields(rejection: &str) -> ProblemDetails {
    let is_prefix = |prefix: &str| prefix.starts_with("Failed to deserialize");
    let parts = rejection.split_once(": ").filter(|(prefix, _)| is_prefix(prefix));
    let what = parts.map_or(rejection, |(_, what)| what);
    let what = what.find("unknown field").and_then(|at| what.get(at..)).unwrap_or(what);
    match what.split_once(", expected ") {
        Some((what, allowed)) => {
            let allowed = allowed.strip_prefix("one of ").unwrap_or(allowed).replace('`', "");
            ProblemDetails::bad_request(what).allowed(allowed)
        }
        None => ProblemDetails::bad_request(what),
    }
}

/// All numbers in paths are ids.
fn invalid_path(rejection: &PathRejection) -> ProblemDetails {
    let PathRejection::FailedToDeserializePathParams(failed) = rejection else {
        return ProblemDetails::not_found(rejection.body_text());
    };
    match failed.kind() {
        ErrorKind::ParseError { value, .. }
        | ErrorKind::ParseErrorAtKey { value, .. }
        | ErrorKind::ParseErrorAtIndex { value, .. } => {
            let what = format!("the path has {value:?} in the place of an id");
            ProblemDetails::not_found(what).allowed("an id is a whole number, 1 or greater")
        }
        _ => ProblemDetails::not_found(rejection.body_text()),
    }
}

pub(crate) struct PathParams<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for PathParams<T> {
    type Rejection = ProblemDetails;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ProblemDetails> {
        reject_nul(parts.uri.path())?;
        axum::extract::Path::from_request_parts(parts, state)
            .await
            .map(|axum::extract::Path(params)| Self(params))
            .map_err(|error| invalid_path(&error))
    }
}

/// The body of a submitted form.
pub(crate) struct Form<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Form<T> {
    type Rejection = ProblemDetails;

    async fn from_request(request: Request, state: &S) -> Result<Self, ProblemDetails> {
        if !has_content_type(&request, "application/x-www-form-urlencoded") {
            let what = "the body must be a form: `Content-Type: application/x-www-form-urlencoded`";
            return Err(ProblemDetails::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, what));
        }
        let (parts, body) = request.into_parts();
        let request = Request::from_parts(parts.clone(), body);
        let bytes = read_body(request, state).await?;
        reject_nul(&String::from_utf8_lossy(&bytes))?;
        let request = Request::from_parts(parts, bytes.into());
        axum::extract::Form::from_request(request, state)
            .await
            .map(|axum::extract::Form(sent)| Self(sent))
            .map_err(|error| invalid_fields(&error.body_text()))
    }
}

/// No stored text contains NUL, and PostgreSQL rejects it in parameters.
fn reject_nul(encoded: &str) -> Result<(), ProblemDetails> {
    let decoded: Cow<'_, [u8]> = percent_decode_str(encoded).into();
    if decoded.contains(&0) {
        Err(ProblemDetails::bad_request("NUL characters are not allowed"))
    } else {
        Ok(())
    }
}

fn has_content_type(request: &Request, known: &str) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
    kind.eq_ignore_ascii_case(known)
}

/// NUL in JSON.
const NUL: &[u8] = br"\u0000";

pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = ProblemDetails;

    async fn from_request(request: Request, state: &S) -> Result<Self, ProblemDetails> {
        let bytes = json_bytes(request, state).await?;
        if bytes.windows(NUL.len()).any(|part| part == NUL) {
            return Err(ProblemDetails::bad_request("NUL characters are not allowed"));
        }
        serde_json::from_slice(&bytes)
            .map(Self)
            .map_err(|error| ProblemDetails::bad_request(format!("the body is invalid: {error}")))
    }
}

/// A JSON body that may be left out.
pub(crate) struct OptionalJson<T>(pub(crate) T);

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequest<S> for OptionalJson<T> {
    type Rejection = ProblemDetails;

    async fn from_request(request: Request, state: &S) -> Result<Self, ProblemDetails> {
        // A client may name the type of a body that it leaves out; a form of another site cannot name this one.
        let has_type = request.headers().contains_key(header::CONTENT_TYPE);
        let is_plain = !has_type || has_content_type(&request, "application/json");
        if is_plain && request.body().size_hint().exact() == Some(0) {
            return Ok(Self(T::default()));
        }
        Json::from_request(request, state).await.map(|Json(sent)| Self(sent))
    }
}

/// The bytes of a JSON body. Other content types are rejected, because a form of another site cannot send JSON.
pub(crate) async fn json_bytes<S: Send + Sync>(
    request: Request,
    state: &S,
) -> Result<Bytes, ProblemDetails> {
    if !has_content_type(&request, "application/json") {
        let what = "the body must be JSON: `Content-Type: application/json`";
        return Err(ProblemDetails::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, what));
    }
    read_body(request, state).await
}

/// Reads a body within the time limit.
async fn read_body<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, ProblemDetails> {
    let client_timeout = limits(&request).client_timeout;
    match tokio::time::timeout(client_timeout, Bytes::from_request(request, state)).await {
        Ok(read) => read.map_err(body_problem),
        Err(_) => {
            let what = "the body did not arrive in time; send less at once";
            Err(ProblemDetails::new(StatusCode::REQUEST_TIMEOUT, what))
        }
    }
}

fn limits(request: &Request) -> ServerLimits {
    request.extensions().get().copied().unwrap_or_default()
}

/// The content of an item, of any content type.
pub(crate) struct ItemBody(pub(crate) Bytes);

impl<S: Send + Sync> FromRequest<S> for ItemBody {
    type Rejection = ProblemDetails;

    async fn from_request(mut request: Request, state: &S) -> Result<Self, ProblemDetails> {
        let most = limits(&request).item_bytes;
        let too_large = |problem: ProblemDetails| {
            problem.allowed(format!("up to {most} bytes; `redrive uploads add` takes any size"))
        };
        // A declared length is rejected before the body is read.
        if request.body().size_hint().lower() > most as u64 {
            return Err(too_large(ProblemDetails::new(StatusCode::PAYLOAD_TOO_LARGE, TOO_LARGE)));
        }
        DefaultBodyLimit::max(most).apply(&mut request);
        read_body(request, state).await.map(Self).map_err(|problem| match problem.status() {
            StatusCode::PAYLOAD_TOO_LARGE => too_large(problem),
            _ => problem,
        })
    }
}

/// A form with a file.
pub(crate) struct FileForm {
    pub(crate) file: Bytes,
    pub(crate) reason: Option<String>,
}

impl<S: Send + Sync> FromRequest<S> for FileForm {
    type Rejection = ProblemDetails;

    async fn from_request(request: Request, state: &S) -> Result<Self, ProblemDetails> {
        let headers = request.headers().clone();
        let ItemBody(body) = ItemBody::from_request(request, state).await?;
        let mut whole = Request::new(Body::from(body));
        *whole.headers_mut() = headers;
        DefaultBodyLimit::disable().apply(&mut whole);
        let invalid = |problem: &str| {
            ProblemDetails::bad_request(format!("{problem}; nothing was changed"))
                .allowed("a form with the fields `file` and `reason`")
        };
        let form = Multipart::from_request(whole, state).await;
        let mut form = form.map_err(|error| invalid(&error.body_text()))?;
        let (mut file, mut reason) = (None, None);
        while let Some(field) =
            form.next_field().await.map_err(|error| invalid(&error.body_text()))?
        {
            let name = field.name().unwrap_or_default().to_owned();
            let read = field.bytes().await.map_err(|error| invalid(&error.body_text()))?;
            match name.as_str() {
                "file" => file = Some(read),
                "reason" => reason = Some(String::from_utf8_lossy(&read).into_owned()),
                _ => return Err(invalid(&format!("unknown field {name:?}"))),
            }
        }
        let file = file.ok_or_else(|| invalid("the field `file` is missing"))?;
        Ok(Self { file, reason })
    }
}

const TOO_LARGE: &str = "the body is too large; send less at once";

fn body_problem(rejection: BytesRejection) -> ProblemDetails {
    let status = rejection.into_response().status();
    let what = match status {
        StatusCode::PAYLOAD_TOO_LARGE => TOO_LARGE,
        _ => "the body is incomplete",
    };
    ProblemDetails::new(status, what)
}
