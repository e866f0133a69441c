//! `/v1/workers`.

use axum::Json as Answer;
use redrive_ops::views::WorkerView;

use crate::{app::AppState, problem::ProblemDetails};

/// Lists the processes that work on units.
#[cfg_attr(test, utoipa::path(get, path = "/v1/workers", tag = "workers",
    responses((status = 200, body = Vec<WorkerView>))))]
pub(crate) async fn list(app: AppState) -> Result<Answer<Vec<WorkerView>>, ProblemDetails> {
    Ok(Answer(app.ops.workers().await?))
}
