//! Health checks. They need no token, so the response omits the cause, which is in the log.

use std::time::Duration;

use axum::{Json, http::StatusCode};
use serde::Serialize;

use crate::app::AppState;

/// The store is unavailable when it does not answer within this time.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Serialize)]
pub(crate) struct Health {
    status: &'static str,
    version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<&'static str>,
}

/// The process answers.
pub(crate) async fn healthz() -> (StatusCode, Json<Health>) {
    health(None)
}

/// The store can be read and written.
pub(crate) async fn readyz(app: AppState) -> (StatusCode, Json<Health>) {
    let store = app.ops.store();
    let problem = match tokio::time::timeout(PING_TIMEOUT, store.ping()).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the store failed the health check"
            );
            Some(match error {
                redrive_store::Error::Full { .. } => "the store has no room left",
                redrive_store::Error::ReadOnly { .. } => "the store is read-only",
                _ => "the store does not answer",
            })
        }
        Err(_) => Some("the store does not answer in time"),
    };
    health(problem)
}

fn health(problem: Option<&'static str>) -> (StatusCode, Json<Health>) {
    let (status, word) = match problem {
        None => (StatusCode::OK, "ok"),
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
    };
    (status, Json(Health { status: word, version: env!("CARGO_PKG_VERSION"), problem }))
}
