//! What a request asks for, read so that whatever is wrong with it is a [`Problem`].

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Request, rejection::BytesRejection},
    http::{StatusCode, header, request::Parts},
    response::IntoResponse,
};
use serde::de::DeserializeOwned;

use crate::problem::Problem;

/// The parameters behind the `?`. Unknown ones are refused: a filter that is not understood would select
/// too much.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        axum::extract::Query::try_from_uri(&parts.uri)
            .map(|axum::extract::Query(asked)| Self(asked))
            .map_err(|error| Problem::bad_request(error.body_text()))
    }
}

/// The parts of the path.
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        axum::extract::Path::from_request_parts(parts, state)
            .await
            .map(|axum::extract::Path(named)| Self(named))
            .map_err(|error| Problem::not_found(error.body_text()))
    }
}

/// A JSON body.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let bytes = json_bytes(request, state).await?;
        serde_json::from_slice(&bytes)
            .map(Self)
            .map_err(|error| Problem::bad_request(format!("the body cannot be used: {error}")))
    }
}

/// The bytes of a JSON body. Anything that does not say it is JSON is refused: a form of another site
/// cannot say so.
pub(crate) async fn json_bytes<S: Send + Sync>(
    request: Request,
    state: &S,
) -> Result<Bytes, Problem> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        let what = "the body must be JSON, and say so: `Content-Type: application/json`";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, what));
    }
    Bytes::from_request(request, state).await.map_err(unread)
}

fn unread(rejection: BytesRejection) -> Problem {
    let status = rejection.into_response().status();
    let what = match status {
        StatusCode::PAYLOAD_TOO_LARGE => "the body is too large; send less at once",
        _ => "the body broke off",
    };
    Problem::new(status, what)
}
