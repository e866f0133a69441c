//! `/v1/queues`.

use axum::{Extension, Json as Answer};
use redrive_ops::views::{QueueStatsView, QueueView};
use redrive_store::QueueAction;
use serde::{Deserialize, Serialize};

use crate::{
    app::{App, AppState},
    extract::{Json, PathParams},
    guard::Caller,
    problem::ProblemDetails,
};

/// Lists the queues that are declared, have runs or are paused.
#[cfg_attr(test, utoipa::path(get, path = "/v1/queues", tag = "queues",
    responses((status = 200, body = Vec<QueueView>))))]
pub(crate) async fn list(app: AppState) -> Result<Answer<Vec<QueueView>>, ProblemDetails> {
    Ok(Answer(app.ops.queues().await?))
}

/// Returns run counts of every queue.
#[cfg_attr(test, utoipa::path(get, path = "/v1/queues/stats", tag = "queues",
    responses((status = 200, body = Vec<QueueStatsView>))))]
pub(crate) async fn stats(app: AppState) -> Result<Answer<Vec<QueueStatsView>>, ProblemDetails> {
    Ok(Answer(app.ops.queue_stats().await?))
}

/// The body of an action without parameters.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct ActionReason {
    /// For the journal.
    pub(crate) reason: Option<String>,
}

/// The body of a pause.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct PauseRequest {
    /// For the journal.
    reason: Option<String>,
    /// Pause even if the configuration does not declare the queue.
    #[serde(default)]
    allow_unknown: bool,
}

/// The state of a queue after an action.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct QueueChangeView {
    queue: String,
    paused: bool,
    /// False when the queue was in that state before.
    changed: bool,
}

/// Pauses a queue: workers claim no more runs.
#[cfg_attr(test, utoipa::path(post, path = "/v1/queues/{queue}/pause", tag = "queues", params(("queue" = String, Path)),
    request_body = PauseRequest,
    responses((status = 200, body = QueueChangeView), (status = 400, body = ProblemDetails))))]
pub(crate) async fn pause(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(queue): PathParams<String>,
    Json(body): Json<PauseRequest>,
) -> Result<Answer<QueueChangeView>, ProblemDetails> {
    if let Some(declared) = app.ops.declared().filter(|_| !body.allow_unknown) {
        declared.expect_queue(&queue)?;
    }
    change_queue(&app, &caller, QueueAction::Pause, queue, body.reason.as_deref()).await.map(Answer)
}

/// Resumes a queue.
#[cfg_attr(test, utoipa::path(post, path = "/v1/queues/{queue}/resume", tag = "queues", params(("queue" = String, Path)),
    request_body = ActionReason,
    responses((status = 200, body = QueueChangeView), (status = 400, body = ProblemDetails))))]
pub(crate) async fn resume(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(queue): PathParams<String>,
    Json(body): Json<ActionReason>,
) -> Result<Answer<QueueChangeView>, ProblemDetails> {
    change_queue(&app, &caller, QueueAction::Resume, queue, body.reason.as_deref())
        .await
        .map(Answer)
}

pub(crate) async fn change_queue(
    app: &App,
    caller: &Caller,
    action: QueueAction,
    queue: String,
    reason: Option<&str>,
) -> Result<QueueChangeView, ProblemDetails> {
    action.check_name(&queue).map_err(|error| ProblemDetails::bad_request(error.to_string()))?;
    let (store, by) = (app.ops.store(), app.operator(caller, reason));
    let changed = match action {
        QueueAction::Pause => store.pause_queue(&queue, &by).await?,
        QueueAction::Resume => store.resume_queue(&queue, &by).await?,
    };
    Ok(QueueChangeView { queue, paused: action == QueueAction::Pause, changed })
}
