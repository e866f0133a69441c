//! What a request asks for, read so that whatever is wrong with it is a [`ProblemDetails`].

use std::borrow::Cow;

use axum::{
    body::{Bytes, HttpBody},
    extract::{
        DefaultBodyLimit, FromRequest, FromRequestParts, Request, rejection::BytesRejection,
    },
    http::{StatusCode, header, request::Parts},
    response::IntoResponse,
};
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;

use crate::{ServerLimits, problem::ProblemDetails};

/// The parameters behind the `?`. Unknown ones are refused: a filter that is not understood would select
/// too much.
pub(crate) struct QueryParams<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryParams<T> {
    type Rejection = ProblemDetails;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ProblemDetails> {
        no_nul(parts.uri.query().unwrap_or_default())?;
        axum::extract::Query::try_from_uri(&parts.uri)
            .map(|axum::extract::Query(asked)| Self(asked))
            .map_err(|error| ProblemDetails::bad_request(error.body_text()))
    }
}

/// The parts of the path.
pub(crate) struct PathParams<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for PathParams<T> {
    type Rejection = ProblemDetails;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ProblemDetails> {
        no_nul(parts.uri.path())?;
        axum::extract::Path::from_request_parts(parts, state)
            .await
            .map(|axum::extract::Path(named)| Self(named))
            .map_err(|error| ProblemDetails::not_found(error.body_text()))
    }
}

/// What a form sends.
pub(crate) struct Form<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Form<T> {
    type Rejection = ProblemDetails;

    async fn from_request(request: Request, state: &S) -> Result<Self, ProblemDetails> {
        if !is_of_kind(&request, "application/x-www-form-urlencoded") {
            let what = "this takes what a form sends: `application/x-www-form-urlencoded`";
            return Err(ProblemDetails::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, what));
        }
        let (parts, body) = request.into_parts();
        let request = Request::from_parts(parts.clone(), body);
        let bytes = whole(request, state).await?;
        no_nul(&String::from_utf8_lossy(&bytes))?;
        let request = Request::from_parts(parts, bytes.into());
        axum::extract::Form::from_request(request, state)
            .await
            .map(|axum::extract::Form(sent)| Self(sent))
            .map_err(|error| ProblemDetails::bad_request(error.body_text()))
    }
}

/// No name and no text has a NUL, and not every database could look for one.
fn no_nul(encoded: &str) -> Result<(), ProblemDetails> {
    let decoded: Cow<'_, [u8]> = percent_decode_str(encoded).into();
    if decoded.contains(&0) {
        Err(ProblemDetails::bad_request("a NUL character stands for nothing here"))
    } else {
        Ok(())
    }
}

fn is_of_kind(request: &Request, known: &str) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
    kind.eq_ignore_ascii_case(known)
}

/// A NUL as JSON writes it.
const NUL: &[u8] = br"\u0000";

/// A JSON body.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = ProblemDetails;

    async fn from_request(request: Request, state: &S) -> Result<Self, ProblemDetails> {
        let bytes = json_bytes(request, state).await?;
        if bytes.windows(NUL.len()).any(|part| part == NUL) {
            return Err(ProblemDetails::bad_request("a NUL character stands for nothing here"));
        }
        serde_json::from_slice(&bytes).map(Self).map_err(|error| {
            ProblemDetails::bad_request(format!("the body cannot be used: {error}"))
        })
    }
}

/// The bytes of a JSON body. Anything that does not say it is JSON is refused: a form of another site
/// cannot say so.
pub(crate) async fn json_bytes<S: Send + Sync>(
    request: Request,
    state: &S,
) -> Result<Bytes, ProblemDetails> {
    if !is_of_kind(&request, "application/json") {
        let what = "the body must be JSON, and say so: `Content-Type: application/json`";
        return Err(ProblemDetails::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, what));
    }
    whole(request, state).await
}

/// The bytes of a body that comes soon enough.
async fn whole<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, ProblemDetails> {
    let client_timeout = limits(&request).client_timeout;
    match tokio::time::timeout(client_timeout, Bytes::from_request(request, state)).await {
        Ok(read) => read.map_err(unread),
        Err(_) => {
            let what = "the body did not come in time; send less at once";
            Err(ProblemDetails::new(StatusCode::REQUEST_TIMEOUT, what))
        }
    }
}

fn limits(request: &Request) -> ServerLimits {
    request.extensions().get().copied().unwrap_or_default()
}

/// The content of an item, of any kind.
pub(crate) struct ItemBody(pub(crate) Bytes);

impl<S: Send + Sync> FromRequest<S> for ItemBody {
    type Rejection = ProblemDetails;

    async fn from_request(mut request: Request, state: &S) -> Result<Self, ProblemDetails> {
        let most = limits(&request).item_bytes;
        let too_large = |problem: ProblemDetails| {
            problem.allowed(format!("up to {most} bytes; `redrive uploads add` takes any size"))
        };
        // Whoever says so is told before the body comes.
        if request.body().size_hint().lower() > most as u64 {
            return Err(too_large(ProblemDetails::new(StatusCode::PAYLOAD_TOO_LARGE, TOO_LARGE)));
        }
        DefaultBodyLimit::max(most).apply(&mut request);
        whole(request, state).await.map(Self).map_err(|problem| match problem.status() {
            StatusCode::PAYLOAD_TOO_LARGE => too_large(problem),
            _ => problem,
        })
    }
}

const TOO_LARGE: &str = "the body is too large; send less at once";

fn unread(rejection: BytesRejection) -> ProblemDetails {
    let status = rejection.into_response().status();
    let what = match status {
        StatusCode::PAYLOAD_TOO_LARGE => TOO_LARGE,
        _ => "the body broke off",
    };
    ProblemDetails::new(status, what)
}
