//! Errors as RFC 9457 problem details.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;

use crate::problem_kind::ProblemKind;

pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// An error response.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct ProblemDetails {
    /// The kind of the problem, a URN.
    #[serde(rename = "type")]
    #[cfg_attr(test, schema(value_type = String))]
    kind: ProblemKind,
    /// The reason phrase of the status.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// The cause of this problem.
    detail: String,
    /// Allowed values or actions.
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed: Option<String>,
    /// For rows of a partition: `missing`, `late`, `failed` or `gone`.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// The `Retry-After` header, in seconds.
    #[serde(skip)]
    retry_after: Option<i64>,
}

impl ProblemDetails {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            kind: ProblemKind::of(status),
            title: status.canonical_reason().unwrap_or("Problem"),
            status: status.as_u16(),
            detail: detail.into(),
            allowed: None,
            reason: None,
            retry_after: None,
        }
    }

    /// For a problem that its status does not name.
    pub(crate) fn kind(self, kind: ProblemKind) -> Self {
        Self { kind, ..self }
    }

    pub(crate) fn allowed(self, allowed: impl Into<String>) -> Self {
        Self { allowed: Some(allowed.into()), ..self }
    }

    pub(crate) fn reason(self, reason: &'static str) -> Self {
        Self { reason: Some(reason), ..self }
    }

    pub(crate) fn retry_after(self, seconds: i64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// Appends to the detail.
    pub(crate) fn with_detail(self, more: impl std::fmt::Display) -> Self {
        Self { detail: format!("{}; {more}", self.detail), ..self }
    }

    pub(crate) fn has_kind(&self, kind: ProblemKind) -> bool {
        self.kind == kind
    }

    pub(crate) fn title(&self) -> &'static str {
        self.title
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    pub(crate) fn allowed_values(&self) -> Option<&str> {
        self.allowed.as_deref()
    }

    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

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

pub(crate) async fn not_found() -> ProblemDetails {
    ProblemDetails::not_found("no such path").allowed("the paths in /openapi.json")
}

pub(crate) async fn method_not_allowed() -> ProblemDetails {
    let what = "the path does not support this method";
    ProblemDetails::new(StatusCode::METHOD_NOT_ALLOWED, what)
}

/// The response omits the cause, which may be confidential; the log has it.
impl From<redrive_store::Error> for ProblemDetails {
    fn from(error: redrive_store::Error) -> Self {
        tracing::warn!(error = &error as &dyn std::error::Error, "the store failed");
        if error.is_transient() {
            let what = "the store does not answer; the request had no known effect";
            Self::new(StatusCode::SERVICE_UNAVAILABLE, what)
                .kind(ProblemKind::StoreUnavailable)
                .retry_after(1)
        } else {
            Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the store rejected the request; the log has the cause",
            )
        }
    }
}

/// An undeclared name is probably misspelled.
impl From<redrive_ops::UndeclaredName> for ProblemDetails {
    fn from(unknown: redrive_ops::UndeclaredName) -> Self {
        Self::bad_request(unknown.to_string())
            .kind(ProblemKind::UndeclaredName)
            .allowed("declared names, or any with \"allow_unknown\": true")
    }
}

impl IntoResponse for ProblemDetails {
    fn into_response(self) -> Response {
        let kind = [(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON))];
        let mut response = (self.status(), kind, self.json()).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        // `guard` replaces the response with a page for browsers.
        response.extensions_mut().insert(self);
        response
    }
}
