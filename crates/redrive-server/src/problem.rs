//! What went wrong, in the words of RFC 9457.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;

/// How RFC 9457 calls it.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// An answer that is none.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct ProblemDetails {
    /// There is no page to read about it: the title says it.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The status in words.
    title: &'static str,
    /// The status of the answer.
    status: u16,
    /// What is wrong.
    detail: String,
    /// What is allowed instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed: Option<String>,
    /// After how many seconds it is worth asking again; told by a header.
    #[serde(skip)]
    retry_after: Option<i64>,
}

impl ProblemDetails {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Problem"),
            status: status.as_u16(),
            detail: detail.into(),
            allowed: None,
            retry_after: None,
        }
    }

    /// With what would be allowed instead.
    pub(crate) fn allowed(self, allowed: impl Into<String>) -> Self {
        Self { allowed: Some(allowed.into()), ..self }
    }

    /// With how many seconds to wait before asking again.
    pub(crate) fn retry_after(self, seconds: i64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// With more to say.
    pub(crate) fn more(self, more: impl std::fmt::Display) -> Self {
        Self { detail: format!("{}; {more}", self.detail), ..self }
    }

    pub(crate) fn title(&self) -> &'static str {
        self.title
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    pub(crate) fn what_is_allowed(&self) -> Option<&str> {
        self.allowed.as_deref()
    }

    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// As it is sent.
    pub(crate) fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }
}

/// The answer where there is nothing.
pub(crate) async fn not_found() -> ProblemDetails {
    ProblemDetails::not_found("there is nothing here")
        .allowed("/openapi.json describes what there is")
}

/// The answer to a method that a path does not have.
pub(crate) async fn method_not_allowed() -> ProblemDetails {
    let what = "this cannot be asked with this method";
    ProblemDetails::new(StatusCode::METHOD_NOT_ALLOWED, what)
}

/// The cause is in the log: it may name what a stranger should not know.
impl From<redrive_store::Error> for ProblemDetails {
    fn from(error: redrive_store::Error) -> Self {
        tracing::warn!(error = &error as &dyn std::error::Error, "the store did not do it");
        if error.is_transient() {
            let what = "the store does not answer; nothing was changed as far as is known";
            Self::new(StatusCode::SERVICE_UNAVAILABLE, what).retry_after(1)
        } else {
            Self::new(StatusCode::INTERNAL_SERVER_ERROR, "the store refused; the log has the cause")
        }
    }
}

impl IntoResponse for ProblemDetails {
    fn into_response(self) -> Response {
        let kind = [(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON))];
        let mut response = (self.status(), kind, self.json()).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        // People who look with a browser get a page instead; see `guard`.
        response.extensions_mut().insert(self);
        response
    }
}
