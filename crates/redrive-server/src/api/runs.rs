//! `POST /v1/runs/{id}/edit`.

use axum::{Extension, Json as Answer, http::StatusCode};
use redrive_core::RunId;
use redrive_ops::EditRunError;
use redrive_store::RunRecord;
use serde::Deserialize;
use serde_json::Value;

use super::bulk::data_token;
use crate::{
    app::{App, AppState},
    extract::{Json, PathParams},
    guard::Caller,
    problem::ProblemDetails,
};

/// A new payload for a run.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct RunEdit {
    payload: Value,
    /// The reason, for the journal.
    reason: Option<String>,
}

/// Replaces the payload of a run that waits or was given up. `POST /v1/runs/retry` then tries it again.
#[cfg_attr(test, utoipa::path(post, path = "/v1/runs/{id}/edit", tag = "runs", params(("id" = i64, Path)),
    request_body = RunEdit,
    responses((status = 200, body = RunRecord), (status = 400, body = ProblemDetails),
              (status = 404, body = ProblemDetails), (status = 409, body = ProblemDetails))))]
pub(crate) async fn edit(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(id): PathParams<i64>,
    Json(edit): Json<RunEdit>,
) -> Result<Answer<RunRecord>, ProblemDetails> {
    edit_run(&app, &caller, id, &edit.payload, None, edit.reason.as_deref()).await.map(Answer)
}

pub(crate) async fn edit_run(
    app: &App,
    caller: &Caller,
    id: i64,
    payload: &Value,
    token: Option<&str>,
    reason: Option<&str>,
) -> Result<RunRecord, ProblemDetails> {
    let by = app.operator(caller, reason);
    let has_seen = |payload: &str| token.is_none_or(|token| token == data_token(payload));
    let edited = app.ops.edit_run(RunId(id), payload, has_seen, Some(&by)).await;
    edited.map_err(|error| match error {
        EditRunError::Store(error) => error.into(),
        EditRunError::Unknown(_) => ProblemDetails::not_found(error.to_string()),
        EditRunError::Payload(_) => ProblemDetails::bad_request(error.to_string()),
        error => ProblemDetails::new(StatusCode::CONFLICT, error.to_string()),
    })
}
