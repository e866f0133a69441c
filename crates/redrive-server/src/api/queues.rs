//! Queues.

use axum::{Extension, Json as Answer};
use redrive_ops::shown::{QueueShown, QueueStatsShown};
use redrive_store::QueueWish;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    app::{App, Shared},
    extract::{Json, Path},
    guard::Visitor,
    problem::Problem,
};

/// The queues that are declared, have runs or are paused.
#[utoipa::path(get, path = "/v1/queues", tag = "queues",
    responses((status = 200, body = Vec<QueueShown>)))]
pub(crate) async fn list(app: Shared) -> Result<Answer<Vec<QueueShown>>, Problem> {
    Ok(Answer(app.desk.queues().await?))
}

/// How every queue stands.
#[utoipa::path(get, path = "/v1/queues/stats", tag = "queues",
    responses((status = 200, body = Vec<QueueStatsShown>)))]
pub(crate) async fn stats(app: Shared) -> Result<Answer<Vec<QueueStatsShown>>, Problem> {
    Ok(Answer(app.desk.queue_stats().await?))
}

/// Why something is done.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Why {
    /// For the journal.
    pub(crate) reason: Option<String>,
}

/// What was done to a queue.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Switched {
    queue: String,
    /// How it is now.
    paused: bool,
    /// Whether that is new.
    changed: bool,
}

/// Lets no worker take another run from a queue.
#[utoipa::path(post, path = "/v1/queues/{queue}/pause", tag = "queues", params(("queue" = String, Path)),
    request_body = Why,
    responses((status = 200, body = Switched), (status = 400, body = Problem)))]
pub(crate) async fn pause(
    app: Shared,
    Extension(visitor): Extension<Visitor>,
    Path(queue): Path<String>,
    Json(why): Json<Why>,
) -> Result<Answer<Switched>, Problem> {
    switch_queue(&app, &visitor, QueueWish::Pause, queue, why.reason.as_deref()).await.map(Answer)
}

/// Lets workers take runs from a queue again.
#[utoipa::path(post, path = "/v1/queues/{queue}/resume", tag = "queues", params(("queue" = String, Path)),
    request_body = Why,
    responses((status = 200, body = Switched), (status = 400, body = Problem)))]
pub(crate) async fn resume(
    app: Shared,
    Extension(visitor): Extension<Visitor>,
    Path(queue): Path<String>,
    Json(why): Json<Why>,
) -> Result<Answer<Switched>, Problem> {
    switch_queue(&app, &visitor, QueueWish::Resume, queue, why.reason.as_deref()).await.map(Answer)
}

/// The same for the dashboard.
pub(crate) async fn switch_queue(
    app: &App,
    visitor: &Visitor,
    wish: QueueWish,
    queue: String,
    reason: Option<&str>,
) -> Result<Switched, Problem> {
    wish.check_name(&queue).map_err(|error| Problem::bad_request(error.to_string()))?;
    let (store, by) = (app.desk.store(), app.operator(visitor, reason));
    let changed = match wish {
        QueueWish::Pause => store.pause_queue(&queue, &by).await?,
        QueueWish::Resume => store.resume_queue(&queue, &by).await?,
    };
    Ok(Switched { queue, paused: wish == QueueWish::Pause, changed })
}
