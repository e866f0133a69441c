//! How everything stands.

use axum::Json as Answer;
use redrive_ops::views::OverviewView;

use crate::{app::Shared, problem::Problem};

/// How everything stands, at most two seconds ago.
#[cfg_attr(test, utoipa::path(get, path = "/v1/overview", tag = "overview",
    responses((status = 200, body = OverviewView), (status = 503, body = Problem))))]
pub(crate) async fn show(app: Shared) -> Result<Answer<OverviewView>, Problem> {
    Ok(Answer((*app.watch.overview().await?).clone()))
}
