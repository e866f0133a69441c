//! Runs.

use axum::{Extension, Json as Answer};
use redrive_core::{RunId, RunStatus};
use redrive_ops::{
    RunSelection,
    views::{RunChangeView, RunView},
};
use redrive_store::{RunAction, RunFilter};
use serde::Deserialize;

use super::{
    bulk::{Changes, How, MAX_UNITS, seen},
    page::{Page, limit, named},
};
use crate::{
    app::{App, Shared},
    extract::{Json, Path, Query},
    guard::Visitor,
    problem::Problem,
};

/// Which runs.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub(crate) struct RunQuery {
    /// In this queue alone.
    queue: Option<String>,
    /// Of this category alone.
    category: Option<String>,
    /// With this status alone.
    status: Option<String>,
    /// At most so many, up to 10000; 100 unless given.
    limit: Option<u32>,
    /// Those alone that come after this id.
    after: Option<i64>,
}

/// The names of the statuses of runs.
pub(crate) fn status_names() -> Vec<&'static str> {
    RunStatus::ALL.into_iter().map(RunStatus::name).collect()
}

/// Runs by id.
#[cfg_attr(test, utoipa::path(get, path = "/v1/runs", tag = "runs", params(RunQuery),
    responses((status = 200, body = Page<RunView>), (status = 400, body = Problem))))]
pub(crate) async fn list(
    app: Shared,
    Query(asked): Query<RunQuery>,
) -> Result<Answer<Page<RunView>>, Problem> {
    let limit = limit(asked.limit)?;
    let status = asked.status.as_deref();
    let status = named("status", status, RunStatus::from_name, &status_names())?;
    let filter = RunFilter { queue: asked.queue, category: asked.category, status };
    let after = RunId(asked.after.unwrap_or(0));
    let page = app.ops.store().runs_page(&filter, after, limit).await?;
    let last = page.last().map(|run| run.id.to_string());
    Ok(Answer(Page::new(page.into_iter().map(RunView::from).collect(), limit, last)))
}

/// One run.
#[cfg_attr(test, utoipa::path(get, path = "/v1/runs/{id}", tag = "runs", params(("id" = i64, Path)),
    responses((status = 200, body = RunView), (status = 404, body = Problem))))]
pub(crate) async fn show(app: Shared, Path(id): Path<i64>) -> Result<Answer<RunView>, Problem> {
    let found = app.ops.store().runs_by_id(&[RunId(id)]).await?.pop();
    let found = found.ok_or_else(|| Problem::not_found(format!("there is no run {id}")))?;
    Ok(Answer(found.into()))
}

/// Which runs to change: some by id, or those of a queue.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct RunActionRequest {
    /// These.
    #[serde(default)]
    pub(crate) ids: Vec<i64>,
    /// Those of this queue instead.
    pub(crate) queue: Option<String>,
    /// With `queue`: those of this category alone.
    pub(crate) category: Option<String>,
    /// With `queue`: those with this status alone.
    pub(crate) status: Option<String>,
    /// Only say what would become of each, and how to say yes to it.
    #[serde(default)]
    pub(crate) dry_run: bool,
    /// What the dry run answered. Up to 20 runs that are named one by one need none.
    pub(crate) token: Option<String>,
    /// Why, for the journal.
    pub(crate) reason: Option<String>,
}

/// Sends runs back to their queue, with a new count of attempts.
#[cfg_attr(test, utoipa::path(post, path = "/v1/runs/retry", tag = "runs", request_body = RunActionRequest,
    responses((status = 200, body = Changes<RunChangeView>), (status = 400, body = Problem),
              (status = 409, body = Problem), (status = 422, body = Problem), (status = 428, body = Problem))))]
pub(crate) async fn retry(
    app: Shared,
    Extension(visitor): Extension<Visitor>,
    Json(request): Json<RunActionRequest>,
) -> Result<Answer<Changes<RunChangeView>>, Problem> {
    change_runs(&app, &visitor, "retry", request).await.map(Answer)
}

/// Stops runs, also those that a worker holds.
#[cfg_attr(test, utoipa::path(post, path = "/v1/runs/cancel", tag = "runs", request_body = RunActionRequest,
    responses((status = 200, body = Changes<RunChangeView>), (status = 400, body = Problem),
              (status = 409, body = Problem), (status = 422, body = Problem), (status = 428, body = Problem))))]
pub(crate) async fn cancel(
    app: Shared,
    Extension(visitor): Extension<Visitor>,
    Json(request): Json<RunActionRequest>,
) -> Result<Answer<Changes<RunChangeView>>, Problem> {
    change_runs(&app, &visitor, "cancel", request).await.map(Answer)
}

/// The same for the dashboard.
pub(crate) async fn change_runs(
    app: &App,
    visitor: &Visitor,
    name: &str,
    request: RunActionRequest,
) -> Result<Changes<RunChangeView>, Problem> {
    let (action, statuses) = match name {
        "retry" => (RunAction::Retry, vec![RunStatus::Error]),
        "cancel" => {
            let unended = [RunStatus::Discovered, RunStatus::Processing, RunStatus::Error];
            (RunAction::Cancel, unended.to_vec())
        }
        _ => {
            let what = format!("nobody can {name:?} a run");
            return Err(Problem::not_found(what).allowed("retry, cancel"));
        }
    };
    let status = request.status.as_deref();
    let status = named("status", status, RunStatus::from_name, &status_names())?;
    let by_id = !request.ids.is_empty();
    let is_filtered = request.queue.is_some() || request.category.is_some() || status.is_some();
    let selection = match request.queue {
        _ if by_id && is_filtered => {
            let what = "ids and filters exclude each other; nothing was changed";
            return Err(Problem::bad_request(what).allowed("`ids`, or `queue`"));
        }
        Some(queue) => RunSelection::Queue {
            queue,
            category: request.category,
            statuses: status.map_or(statuses, |status| vec![status]),
        },
        None if !by_id => {
            let what = "no runs are named; nothing was changed";
            return Err(Problem::bad_request(what).allowed("`ids`, or `queue`"));
        }
        None => RunSelection::Ids(request.ids.into_iter().map(RunId).collect()),
    };
    let how = How { dry_run: request.dry_run, token: request.token, reason: request.reason };
    let ops = &app.ops;
    let ids = ops.select_runs(&selection, MAX_UNITS + 1).await?;
    if let Some(seen) = seen(name, ops.foresee_runs(action, &ids).await?, &how, by_id)? {
        return Ok(seen);
    }
    let by = app.operator(visitor, how.reason.as_deref());
    let (changes, ended) = ops.change_runs(action, &ids, &by).await;
    if let Err(error) = ended {
        let problem = Problem::from(error);
        let done = changes.len();
        return Err(problem.more(format!("{done} of {} were reached before that", ids.len())));
    }
    Ok(Changes::done(changes))
}
