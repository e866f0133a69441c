//! `/v1/…/attempts/{attempt}/log`: what handlers logged during attempts.

use axum::Json as Answer;
use redrive_core::{AttemptNumber, RunId, SampleId, Unit};
use redrive_ops::{ExplainTarget, LogView};

use super::partitions::key_of;
use crate::{app::AppState, extract::PathParams, problem::ProblemDetails};

/// Returns the log of an attempt at a run. Attempts that failed keep their log, those that succeeded as many as `success-logs` allows.
#[cfg_attr(test, utoipa::path(get, path = "/v1/runs/{id}/attempts/{attempt}/log", tag = "runs",
    params(("id" = i64, Path), ("attempt" = u32, Path)),
    responses((status = 200, body = LogView), (status = 404, body = ProblemDetails))))]
pub(crate) async fn of_run(
    app: AppState,
    PathParams((id, attempt)): PathParams<(i64, u32)>,
) -> Result<Answer<LogView>, ProblemDetails> {
    log(&app, Unit::Run(RunId(id)), attempt).await
}

/// Returns the log of an attempt at a partition.
#[cfg_attr(test, utoipa::path(get,
    path = "/v1/partitions/{source}/{customer_id}/{query_name}/{logical_date}/attempts/{attempt}/log",
    tag = "partitions",
    params(("source" = String, Path), ("customer_id" = String, Path), ("query_name" = String, Path),
           ("logical_date" = String, Path), ("attempt" = u32, Path)),
    responses((status = 200, body = LogView), (status = 400, body = ProblemDetails),
              (status = 404, body = ProblemDetails))))]
pub(crate) async fn of_partition(
    app: AppState,
    PathParams((source, customer, query, date, attempt)): PathParams<(
        String,
        String,
        String,
        String,
        u32,
    )>,
) -> Result<Answer<LogView>, ProblemDetails> {
    log(&app, Unit::Partition(key_of(&(source, customer, query, date))?), attempt).await
}

/// Returns the log of an attempt at a sample at a stage.
#[cfg_attr(test, utoipa::path(get, path = "/v1/samples/{id}/stages/{stage}/attempts/{attempt}/log", tag = "dead letters",
    params(("id" = i64, Path), ("stage" = String, Path), ("attempt" = u32, Path)),
    responses((status = 200, body = LogView), (status = 404, body = ProblemDetails))))]
pub(crate) async fn of_sample(
    app: AppState,
    PathParams((id, stage, attempt)): PathParams<(i64, String, u32)>,
) -> Result<Answer<LogView>, ProblemDetails> {
    log(&app, Unit::Sample { id: SampleId(id), stage }, attempt).await
}

async fn log(app: &AppState, unit: Unit, attempt: u32) -> Result<Answer<LogView>, ProblemDetails> {
    let (name, number) = (unit.to_string(), AttemptNumber(attempt));
    let rows = app.ops.unit_rows(&ExplainTarget::Unit(unit)).await?;
    let Some(row) = rows.first() else {
        return Err(ProblemDetails::not_found(format!("there is no {name}")));
    };
    let log = app.ops.log(row, Some(number)).await?;
    log.map(Answer)
        .ok_or_else(|| ProblemDetails::not_found(format!("attempt {attempt} at {name} has no log")))
}
