//! Whether all is well. A stranger may ask: the answer names the trouble, the log has its cause.

use std::time::Duration;

use axum::{Json, http::StatusCode};
use serde::Serialize;

use crate::app::AppState;

/// How long the store may take to answer before it counts as gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// The answer.
#[derive(Debug, Serialize)]
pub(crate) struct Health {
    status: &'static str,
    version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<&'static str>,
}

/// Whether the process answers.
pub(crate) async fn healthz() -> (StatusCode, Json<Health>) {
    answer(None)
}

/// Whether requests would be answered: the store can be read and written.
pub(crate) async fn readyz(app: AppState) -> (StatusCode, Json<Health>) {
    let store = app.ops.store();
    let problem = match tokio::time::timeout(PATIENCE, store.ping()).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "the store is of no use");
            Some(match error {
                redrive_store::Error::Full { .. } => "the store has no room left",
                _ => "the store does not answer",
            })
        }
        Err(_) => Some("the store does not answer in time"),
    };
    answer(problem)
}

fn answer(problem: Option<&'static str>) -> (StatusCode, Json<Health>) {
    let (status, word) = match problem {
        None => (StatusCode::OK, "ok"),
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
    };
    (status, Json(Health { status: word, version: env!("CARGO_PKG_VERSION"), problem }))
}
