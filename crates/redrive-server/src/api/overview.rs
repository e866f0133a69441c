//! `/v1/overview`.

use axum::Json as Answer;
use redrive_ops::views::OverviewView;

use crate::{app::AppState, problem::ProblemDetails};

/// Returns an overview of the store that is at most two seconds old.
#[cfg_attr(test, utoipa::path(get, path = "/v1/overview", tag = "overview",
    responses((status = 200, body = OverviewView), (status = 503, body = ProblemDetails))))]
pub(crate) async fn show(app: AppState) -> Result<Answer<OverviewView>, ProblemDetails> {
    Ok(Answer((*app.watch.overview().await?).clone()))
}
