//! `/v1/pipelines` and `/v1/pipeline-runs`.

use axum::{
    Extension, Json as Answer,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use redrive_core::{PipelineRunId, SampleId, SampleStatus};
use redrive_engine::{ResumeError, SamplePages};
use redrive_ops::views::{PipelineRunView, PipelineStatsView};
use redrive_store::{PipelineChange, PipelineRunRecord, Selection};
use serde::Deserialize;

use super::{page::limit, queues::ActionReason};
use crate::{
    app::{App, AppState},
    extract::{Json, PathParams, QueryParams},
    guard::Caller,
    problem::ProblemDetails,
};

const MAX_OUTPUT_BYTES: usize = 8 * 1024 * 1024;

pub(crate) async fn find_run(app: &App, id: i64) -> Result<PipelineRunRecord, ProblemDetails> {
    let run = app.ops.pipelines().run(PipelineRunId(id)).await?;
    run.ok_or_else(|| ProblemDetails::not_found(format!("there is no pipeline run {id}")))
}

/// Returns statistics of a pipeline run by stage.
#[cfg_attr(test, utoipa::path(get, path = "/v1/pipeline-runs/{id}/stats", tag = "pipelines", params(("id" = i64, Path)),
    responses((status = 200, body = PipelineStatsView), (status = 404, body = ProblemDetails))))]
pub(crate) async fn stats(
    app: AppState,
    PathParams(id): PathParams<i64>,
) -> Result<Answer<PipelineStatsView>, ProblemDetails> {
    let run = find_run(&app, id).await?;
    Ok(Answer(app.ops.pipeline_stats(&run).await?))
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub(crate) struct OutputQuery {
    /// Rows of the page, 1 to 10000; default 100.
    limit: Option<u32>,
    /// The `redrive-next` header of the previous page.
    after: Option<i64>,
}

/// Returns the succeeded samples of a run as JSON lines. When there may be more, the `redrive-next` header has the `after`
/// of the next page.
#[cfg_attr(test, utoipa::path(get, path = "/v1/pipeline-runs/{id}/output", tag = "pipelines",
    params(("id" = i64, Path), OutputQuery),
    responses((status = 200, content_type = "application/x-ndjson", body = String),
              (status = 404, body = ProblemDetails))))]
pub(crate) async fn output(
    app: AppState,
    PathParams(id): PathParams<i64>,
    QueryParams(query): QueryParams<OutputQuery>,
) -> Result<Response, ProblemDetails> {
    let limit = limit(query.limit)?;
    let run = find_run(&app, id).await?;
    let filter = Selection {
        run: Some(run.id),
        state: Some(SampleStatus::Succeeded.into()),
        ..Selection::default()
    };
    let after = SampleId(query.after.unwrap_or(0));
    let store = app.ops.store().clone();
    let mut pages = SamplePages::new(store, filter).after(after).with_limit(limit.into());
    let (mut lines, mut last, mut count) = (String::new(), None, 0);
    'pages: loop {
        let page = pages.next().await?;
        if page.is_empty() {
            break;
        }
        for sample in page {
            lines.push_str(sample.data.as_deref().unwrap_or("null"));
            lines.push('\n');
            last = Some(sample.id);
            count += 1;
            if lines.len() >= MAX_OUTPUT_BYTES {
                break 'pages;
            }
        }
    }
    let is_full = count >= limit || lines.len() >= MAX_OUTPUT_BYTES;
    let next = last.filter(|_| is_full).map(|last| [("redrive-next", last.to_string())]);
    Ok((next, [(header::CONTENT_TYPE, "application/x-ndjson")], lines).into_response())
}

/// Starts a run of a declared pipeline. Workers process its samples.
#[cfg_attr(test, utoipa::path(post, path = "/v1/pipelines/{pipeline}/runs", tag = "pipelines",
    params(("pipeline" = String, Path)), request_body = ActionReason,
    responses((status = 201, body = PipelineRunView), (status = 404, body = ProblemDetails))))]
pub(crate) async fn start(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(name): PathParams<String>,
    Json(action): Json<ActionReason>,
) -> Result<(StatusCode, Answer<PipelineRunView>), ProblemDetails> {
    let run = start_run(&app, &caller, &name, action.reason.as_deref()).await?;
    Ok((StatusCode::CREATED, Answer(run)))
}

pub(crate) async fn start_run(
    app: &App,
    caller: &Caller,
    name: &str,
    reason: Option<&str>,
) -> Result<PipelineRunView, ProblemDetails> {
    let pipeline = app.pipelines.get(name).ok_or_else(|| {
        let known: Vec<&str> = app.pipelines.keys().map(String::as_str).collect();
        ProblemDetails::not_found(format!("the configuration declares no pipeline {name:?}"))
            .allowed(known.join(", "))
    })?;
    let id = app.ops.pipelines().start(pipeline, &app.operator(caller, reason)).await?;
    Ok((&find_run(app, id.0).await?).into())
}

/// Resumes a run that was aborted or cancelled. Workers process its samples.
#[cfg_attr(test, utoipa::path(post, path = "/v1/pipeline-runs/{id}/resume", tag = "pipelines",
    params(("id" = i64, Path)), request_body = ActionReason,
    responses((status = 200, body = PipelineRunView), (status = 404, body = ProblemDetails),
              (status = 409, body = ProblemDetails))))]
pub(crate) async fn resume(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(id): PathParams<i64>,
    Json(action): Json<ActionReason>,
) -> Result<Answer<PipelineRunView>, ProblemDetails> {
    resume_run(&app, &caller, id, action.reason.as_deref()).await.map(Answer)
}

pub(crate) async fn resume_run(
    app: &App,
    caller: &Caller,
    id: i64,
    reason: Option<&str>,
) -> Result<PipelineRunView, ProblemDetails> {
    let run = find_run(app, id).await?;
    let conflict = |what: String| ProblemDetails::new(StatusCode::CONFLICT, what);
    let pipeline = app.pipelines.get(&run.pipeline);
    let pipeline = pipeline.ok_or_else(|| {
        conflict(format!("the configuration does not declare pipeline {:?}", run.pipeline))
    })?;
    let by = app.operator(caller, reason);
    match app.ops.pipelines().resume(run.id, pipeline, &by).await {
        Ok(run) => Ok((&run).into()),
        Err(ResumeError::Store(error)) => Err(error.into()),
        Err(other) => Err(conflict(other.to_string())),
    }
}

/// Cancels a run. Unprocessed samples stay pending.
#[cfg_attr(test, utoipa::path(post, path = "/v1/pipeline-runs/{id}/cancel", tag = "pipelines",
    params(("id" = i64, Path)), request_body = ActionReason,
    responses((status = 200, body = PipelineRunView), (status = 404, body = ProblemDetails),
              (status = 409, body = ProblemDetails))))]
pub(crate) async fn cancel(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(id): PathParams<i64>,
    Json(action): Json<ActionReason>,
) -> Result<Answer<PipelineRunView>, ProblemDetails> {
    cancel_run(&app, &caller, id, action.reason.as_deref()).await.map(Answer)
}

pub(crate) async fn cancel_run(
    app: &App,
    caller: &Caller,
    id: i64,
    reason: Option<&str>,
) -> Result<PipelineRunView, ProblemDetails> {
    let run = find_run(app, id).await?;
    match app.ops.pipelines().cancel(run.id, &app.operator(caller, reason)).await? {
        PipelineChange::Done(_) => Ok((&find_run(app, id).await?).into()),
        PipelineChange::Refused(status) => {
            let what = format!("pipeline run {id} is {status} and cannot be cancelled");
            Err(ProblemDetails::new(StatusCode::CONFLICT, what))
        }
        PipelineChange::Unknown => {
            Err(ProblemDetails::not_found(format!("there is no pipeline run {id}")))
        }
    }
}
