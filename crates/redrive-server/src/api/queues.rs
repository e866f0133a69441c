//! Queues.

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

/// The queues that are declared, have runs or are paused.
#[cfg_attr(test, utoipa::path(get, path = "/v1/queues", tag = "queues",
    responses((status = 200, body = Vec<QueueView>))))]
pub(crate) async fn list(app: AppState) -> Result<Answer<Vec<QueueView>>, ProblemDetails> {
    Ok(Answer(app.ops.queues().await?))
}

/// How every queue stands.
#[cfg_attr(test, utoipa::path(get, path = "/v1/queues/stats", tag = "queues",
    responses((status = 200, body = Vec<QueueStatsView>))))]
pub(crate) async fn stats(app: AppState) -> Result<Answer<Vec<QueueStatsView>>, ProblemDetails> {
    Ok(Answer(app.ops.queue_stats().await?))
}

/// Why something is done.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct ActionReason {
    /// For the journal.
    pub(crate) reason: Option<String>,
}

/// What was done to a queue.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct QueueChangeView {
    queue: String,
    /// How it is now.
    paused: bool,
    /// Whether that is new.
    changed: bool,
}

/// Lets no worker take another run from a queue.
#[cfg_attr(test, utoipa::path(post, path = "/v1/queues/{queue}/pause", tag = "queues", params(("queue" = String, Path)),
    request_body = ActionReason,
    responses((status = 200, body = QueueChangeView), (status = 400, body = ProblemDetails))))]
pub(crate) async fn pause(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(queue): PathParams<String>,
    Json(why): Json<ActionReason>,
) -> Result<Answer<QueueChangeView>, ProblemDetails> {
    change_queue(&app, &caller, QueueAction::Pause, queue, why.reason.as_deref()).await.map(Answer)
}

/// Lets workers take runs from a queue again.
#[cfg_attr(test, utoipa::path(post, path = "/v1/queues/{queue}/resume", tag = "queues", params(("queue" = String, Path)),
    request_body = ActionReason,
    responses((status = 200, body = QueueChangeView), (status = 400, body = ProblemDetails))))]
pub(crate) async fn resume(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(queue): PathParams<String>,
    Json(why): Json<ActionReason>,
) -> Result<Answer<QueueChangeView>, ProblemDetails> {
    change_queue(&app, &caller, QueueAction::Resume, queue, why.reason.as_deref()).await.map(Answer)
}

/// The same for the dashboard.
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
