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
    bulk::{BulkOptions, BulkOutcome, MAX_UNITS, seen},
    page::{ListPage, limit, named},
};
use crate::{
    app::{App, AppState},
    extract::{Json, PathParams, QueryParams},
    guard::Caller,
    problem::ProblemDetails,
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
    responses((status = 200, body = ListPage<RunView>), (status = 400, body = ProblemDetails))))]
pub(crate) async fn list(
    app: AppState,
    QueryParams(query): QueryParams<RunQuery>,
) -> Result<Answer<ListPage<RunView>>, ProblemDetails> {
    let limit = limit(query.limit)?;
    let status = query.status.as_deref();
    let status = named("status", status, RunStatus::from_name, &status_names())?;
    let filter = RunFilter { queue: query.queue, category: query.category, status };
    let after = RunId(query.after.unwrap_or(0));
    let page = app.ops.store().runs_page(&filter, after, limit).await?;
    let last = page.last().map(|run| run.id.to_string());
    Ok(Answer(ListPage::new(page.into_iter().map(RunView::from).collect(), limit, last)))
}

/// One run.
#[cfg_attr(test, utoipa::path(get, path = "/v1/runs/{id}", tag = "runs", params(("id" = i64, Path)),
    responses((status = 200, body = RunView), (status = 404, body = ProblemDetails))))]
pub(crate) async fn show(
    app: AppState,
    PathParams(id): PathParams<i64>,
) -> Result<Answer<RunView>, ProblemDetails> {
    let found = app.ops.store().runs_by_id(&[RunId(id)]).await?.pop();
    let found = found.ok_or_else(|| ProblemDetails::not_found(format!("there is no run {id}")))?;
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
    responses((status = 200, body = BulkOutcome<RunChangeView>), (status = 400, body = ProblemDetails),
              (status = 409, body = ProblemDetails), (status = 422, body = ProblemDetails), (status = 428, body = ProblemDetails))))]
pub(crate) async fn retry(
    app: AppState,
    Extension(caller): Extension<Caller>,
    Json(request): Json<RunActionRequest>,
) -> Result<Answer<BulkOutcome<RunChangeView>>, ProblemDetails> {
    change_runs(&app, &caller, "retry", request).await.map(Answer)
}

/// Stops runs, also those that a worker holds.
#[cfg_attr(test, utoipa::path(post, path = "/v1/runs/cancel", tag = "runs", request_body = RunActionRequest,
    responses((status = 200, body = BulkOutcome<RunChangeView>), (status = 400, body = ProblemDetails),
              (status = 409, body = ProblemDetails), (status = 422, body = ProblemDetails), (status = 428, body = ProblemDetails))))]
pub(crate) async fn cancel(
    app: AppState,
    Extension(caller): Extension<Caller>,
    Json(request): Json<RunActionRequest>,
) -> Result<Answer<BulkOutcome<RunChangeView>>, ProblemDetails> {
    change_runs(&app, &caller, "cancel", request).await.map(Answer)
}

/// The same for the dashboard.
pub(crate) async fn change_runs(
    app: &App,
    caller: &Caller,
    name: &str,
    request: RunActionRequest,
) -> Result<BulkOutcome<RunChangeView>, ProblemDetails> {
    let (action, statuses) = match name {
        "retry" => (RunAction::Retry, vec![RunStatus::Error]),
        "cancel" => {
            let unended = [RunStatus::Discovered, RunStatus::Processing, RunStatus::Error];
            (RunAction::Cancel, unended.to_vec())
        }
        _ => {
            let what = format!("nobody can {name:?} a run");
            return Err(ProblemDetails::not_found(what).allowed("retry, cancel"));
        }
    };
    let status = request.status.as_deref();
    let status = named("status", status, RunStatus::from_name, &status_names())?;
    let by_id = !request.ids.is_empty();
    let is_filtered = request.queue.is_some() || request.category.is_some() || status.is_some();
    let selection = match request.queue {
        _ if by_id && is_filtered => {
            let what = "ids and filters exclude each other; nothing was changed";
            return Err(ProblemDetails::bad_request(what).allowed("`ids`, or `queue`"));
        }
        Some(queue) => RunSelection::Queue {
            queue,
            category: request.category,
            statuses: status.map_or(statuses, |status| vec![status]),
        },
        None if !by_id => {
            let what = "no runs are named; nothing was changed";
            return Err(ProblemDetails::bad_request(what).allowed("`ids`, or `queue`"));
        }
        None => RunSelection::Ids(request.ids.into_iter().map(RunId).collect()),
    };
    let how =
        BulkOptions { dry_run: request.dry_run, token: request.token, reason: request.reason };
    let ops = &app.ops;
    let ids = ops.select_runs(&selection, MAX_UNITS + 1).await?;
    if let Some(seen) = seen(name, ops.preview_runs(action, &ids).await?, &how, by_id)? {
        return Ok(seen);
    }
    let by = app.operator(caller, how.reason.as_deref());
    let (changes, ended) = ops.change_runs(action, &ids, &by).await;
    if let Err(error) = ended {
        let problem = ProblemDetails::from(error);
        let done = changes.len();
        return Err(problem.more(format!("{done} of {} were reached before that", ids.len())));
    }
    Ok(BulkOutcome::done(changes))
}
