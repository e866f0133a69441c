//! `/v1/runs`.

use axum::{Extension, Json as Answer, http::StatusCode};
use redrive_core::{RunId, RunStatus};
use redrive_ops::{
    EditRunError, RunSelection,
    views::{RunChangeView, RunView},
};
use redrive_store::{PageLimit, RunAction, RunFilter};
use serde::Deserialize;
use serde_json::Value;

use super::{
    bulk::{BulkOptions, BulkOutcome, MAX_UNITS, confirm},
    page::{ListPage, PageBuilder, named},
};
use crate::{
    app::{App, AppState},
    extract::{Json, PathParams, QueryParams},
    guard::Caller,
    problem::ProblemDetails,
};

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub(crate) struct RunQuery {
    queue: Option<String>,
    category: Option<String>,
    /// `discovered`, `processing`, `passed`, `needs_review`, `failed`, `error` or `cancelled`.
    status: Option<String>,
    /// Include payloads and results; default false.
    #[serde(default)]
    data: bool,
    /// Rows of the page, 1 to 10000; default 100.
    limit: Option<u32>,
    /// The `next` of the previous page.
    after: Option<i64>,
}

pub(crate) fn status_names() -> Vec<&'static str> {
    RunStatus::ALL.into_iter().map(RunStatus::name).collect()
}

/// Lists runs by id, without payloads and results unless `data=true`.
#[cfg_attr(test, utoipa::path(get, path = "/v1/runs", tag = "runs", params(RunQuery),
    responses((status = 200, body = ListPage<RunView>), (status = 400, body = ProblemDetails))))]
pub(crate) async fn list(
    app: AppState,
    QueryParams(query): QueryParams<RunQuery>,
) -> Result<Answer<ListPage<RunView>>, ProblemDetails> {
    let status = query.status.as_deref();
    let status = named("status", status, RunStatus::from_name, &status_names())?;
    let filter = RunFilter { queue: query.queue, category: query.category, status };
    let after = RunId(query.after.unwrap_or(0));
    let view = |run| match (RunView::from(run), query.data) {
        (run, true) => run,
        (run, false) => run.without_data(),
    };
    let mut page = PageBuilder::new(query.limit, after)?;
    while let Some((after, rows)) = page.next_read() {
        let limit = PageLimit { rows, with_data: query.data };
        let found = app.ops.store().runs_page(&filter, after, limit).await?;
        let has_more = limit.is_reached(&found);
        page.add(found, has_more, |run| run.id, view);
    }
    Ok(page.answer())
}

/// Returns a run.
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
    responses((status = 200, body = RunView), (status = 400, body = ProblemDetails),
              (status = 404, body = ProblemDetails), (status = 409, body = ProblemDetails))))]
pub(crate) async fn edit(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(id): PathParams<i64>,
    Json(edit): Json<RunEdit>,
) -> Result<Answer<RunView>, ProblemDetails> {
    edit_run(&app, &caller, id, &edit.payload, edit.reason.as_deref()).await.map(Answer)
}

pub(crate) async fn edit_run(
    app: &App,
    caller: &Caller,
    id: i64,
    payload: &Value,
    reason: Option<&str>,
) -> Result<RunView, ProblemDetails> {
    let by = app.operator(caller, reason);
    let edited = app.ops.edit_run(RunId(id), payload, &by).await;
    edited.map(RunView::from).map_err(|error| match error {
        EditRunError::Store(error) => error.into(),
        EditRunError::Unknown(_) => ProblemDetails::not_found(error.to_string()),
        EditRunError::Payload(_) => ProblemDetails::bad_request(error.to_string()),
        error => ProblemDetails::new(StatusCode::CONFLICT, error.to_string()),
    })
}

/// Selects runs by `ids`, or the runs of a queue.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct RunActionRequest {
    #[serde(default)]
    pub(crate) ids: Vec<i64>,
    /// Instead of `ids`.
    pub(crate) queue: Option<String>,
    /// With `queue`.
    pub(crate) category: Option<String>,
    /// With `queue`.
    pub(crate) status: Option<String>,
    /// Only return the expected outcomes and the token that confirms them.
    #[serde(default)]
    pub(crate) dry_run: bool,
    /// The token of a dry run. Not needed for up to 20 `ids`.
    pub(crate) token: Option<String>,
    /// The reason, for the journal.
    pub(crate) reason: Option<String>,
}

/// Requeues runs with a new count of attempts.
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

/// Cancels runs, including those that a worker holds.
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

pub(crate) async fn change_runs(
    app: &App,
    caller: &Caller,
    name: &str,
    request: RunActionRequest,
) -> Result<BulkOutcome<RunChangeView>, ProblemDetails> {
    let (action, statuses) = match name {
        "retry" => (RunAction::Retry, vec![RunStatus::Error]),
        "cancel" => {
            let unfinished = [RunStatus::Discovered, RunStatus::Processing, RunStatus::Error];
            (RunAction::Cancel, unfinished.to_vec())
        }
        _ => {
            let what = format!("unknown run action {name:?}");
            return Err(ProblemDetails::not_found(what).allowed("retry, cancel"));
        }
    };
    let status = request.status.as_deref();
    let status = named("status", status, RunStatus::from_name, &status_names())?;
    let by_id = !request.ids.is_empty();
    let is_filtered = request.queue.is_some() || request.category.is_some() || status.is_some();
    let selection = match request.queue {
        _ if by_id && is_filtered => {
            let what = "`ids` excludes filters; nothing was changed";
            return Err(ProblemDetails::bad_request(what).allowed("either `ids`, or `queue`"));
        }
        Some(queue) => RunSelection::Queue {
            queue,
            category: request.category,
            statuses: status.map_or(statuses, |status| vec![status]),
        },
        None if !by_id => {
            let what = "no runs are selected; nothing was changed";
            return Err(ProblemDetails::bad_request(what).allowed("either `ids`, or `queue`"));
        }
        None => RunSelection::Ids(request.ids.into_iter().map(RunId).collect()),
    };
    let options =
        BulkOptions { dry_run: request.dry_run, token: request.token, reason: request.reason };
    let ops = &app.ops;
    let ids = ops.select_runs(&selection, MAX_UNITS + 1).await?;
    if let Some(dry_run) = confirm(name, ops.preview_runs(action, &ids).await?, &options, by_id)? {
        return Ok(dry_run);
    }
    let by = app.operator(caller, options.reason.as_deref());
    let (changes, ended) = ops.change_runs(action, &ids, &by).await;
    if let Err(error) = ended {
        let problem = ProblemDetails::from(error);
        let done = changes.len();
        return Err(
            problem.with_detail(format!("{done} of {} runs were processed before", ids.len()))
        );
    }
    Ok(BulkOutcome::done(changes))
}
