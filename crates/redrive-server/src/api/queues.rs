//! Queues.

use axum::{Extension, Json as Answer};
use redrive_ops::views::{QueueStatsView, QueueView};
use redrive_store::QueueAction;
use serde::{Deserialize, Serialize};

use crate::{
    app::{App, Shared},
    extract::{Json, Path},
    guard::Visitor,
    problem::Problem,
};

/// The queues that are declared, have runs or are paused.
#[cfg_attr(test, utoipa::path(get, path = "/v1/queues", tag = "queues",
    responses((status = 200, body = Vec<QueueView>))))]
pub(crate) async fn list(app: Shared) -> Result<Answer<Vec<QueueView>>, Problem> {
    Ok(Answer(app.ops.queues().await?))
}

/// How every queue stands.
#[cfg_attr(test, utoipa::path(get, path = "/v1/queues/stats", tag = "queues",
    responses((status = 200, body = Vec<QueueStatsView>))))]
pub(crate) async fn stats(app: Shared) -> Result<Answer<Vec<QueueStatsView>>, Problem> {
    Ok(Answer(app.ops.queue_stats().await?))
}

/// Why something is done.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Why {
    /// For the journal.
    pub(crate) reason: Option<String>,
}

/// What was done to a queue.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct Switched {
    queue: String,
    /// How it is now.
    paused: bool,
    /// Whether that is new.
    changed: bool,
}

/// Lets no worker take another run from a queue.
#[cfg_attr(test, utoipa::path(post, path = "/v1/queues/{queue}/pause", tag = "queues", params(("queue" = String, Path)),
    request_body = Why,
    responses((status = 200, body = Switched), (status = 400, body = Problem))))]
pub(crate) async fn pause(
    app: Shared,
    Extension(visitor): Extension<Visitor>,
    Path(queue): Path<String>,
    Json(why): Json<Why>,
) -> Result<Answer<Switched>, Problem> {
    switch_queue(&app, &visitor, QueueAction::Pause, queue, why.reason.as_deref()).await.map(Answer)
}

/// Lets workers take runs from a queue again.
#[cfg_attr(test, utoipa::path(post, path = "/v1/queues/{queue}/resume", tag = "queues", params(("queue" = String, Path)),
    request_body = Why,
    responses((status = 200, body = Switched), (status = 400, body = Problem))))]
pub(crate) async fn resume(
    app: Shared,
    Extension(visitor): Extension<Visitor>,
    Path(queue): Path<String>,
    Json(why): Json<Why>,
) -> Result<Answer<Switched>, Problem> {
    switch_queue(&app, &visitor, QueueAction::Resume, queue, why.reason.as_deref())
        .await
        .map(Answer)
}

/// The same for the dashboard.
pub(crate) async fn switch_queue(
    app: &App,
    visitor: &Visitor,
    action: QueueAction,
    queue: String,
    reason: Option<&str>,
) -> Result<Switched, Problem> {
    action.check_name(&queue).map_err(|error| Problem::bad_request(error.to_string()))?;
    let (store, by) = (app.ops.store(), app.operator(visitor, reason));
    let changed = match action {
        QueueAction::Pause => store.pause_queue(&queue, &by).await?,
        QueueAction::Resume => store.resume_queue(&queue, &by).await?,
    };
    Ok(Switched { queue, paused: action == QueueAction::Pause, changed })
}
