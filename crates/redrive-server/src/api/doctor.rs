//! `/v1/doctor`, `/v1/verify` and `/v1/db`.

use axum::{Json as Answer, http::StatusCode};
use redrive_ops::views::{CheckupView, FindingView, MigrationView};
use tokio::sync::MutexGuard;

use crate::{
    app::{App, AppState},
    problem::ProblemDetails,
};

/// Checks the configuration and the store, and changes nothing. Returns one row for each check; `ok` is false for an
/// error. The check reads all units with their attempts, so one runs at a time.
#[cfg_attr(test, utoipa::path(get, path = "/v1/doctor", tag = "doctor",
    responses((status = 200, body = Vec<CheckupView>),
              (status = 503, description = "another check is running", body = ProblemDetails))))]
pub(crate) async fn doctor(app: AppState) -> Result<Answer<Vec<CheckupView>>, ProblemDetails> {
    let _running = lock(&app)?;
    Ok(Answer(app.ops.checkups().await))
}

/// Compares every partition with its ledger and reads every raw partition with authority to its end. Returns the
/// findings, which are empty without errors.
#[cfg_attr(test, utoipa::path(get, path = "/v1/verify", tag = "doctor",
    responses((status = 200, body = Vec<FindingView>),
              (status = 503, description = "another check is running", body = ProblemDetails))))]
pub(crate) async fn verify(app: AppState) -> Result<Answer<Vec<FindingView>>, ProblemDetails> {
    let _running = lock(&app)?;
    let report = app.ops.verify().await?;
    Ok(Answer(report.findings.into_iter().map(FindingView::from).collect()))
}

/// A full check reads the whole store, so one runs at a time.
fn lock(app: &App) -> Result<MutexGuard<'_, ()>, ProblemDetails> {
    app.doctor.try_lock().map_err(|_| {
        let what = "another check is running";
        ProblemDetails::new(StatusCode::SERVICE_UNAVAILABLE, what).retry_after(1)
    })
}

/// Lists the applied and the pending migrations. A server starts only on a store without pending migrations.
#[cfg_attr(test, utoipa::path(get, path = "/v1/db", tag = "db",
    responses((status = 200, body = Vec<MigrationView>), (status = 503, body = ProblemDetails))))]
pub(crate) async fn db(app: AppState) -> Result<Answer<Vec<MigrationView>>, ProblemDetails> {
    Ok(Answer(app.ops.migrations().await?))
}
