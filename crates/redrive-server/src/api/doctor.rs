//! Whether everything is as it must be, and which schema the store has.

use axum::{Json as Answer, http::StatusCode};
use redrive_ops::views::{CheckupView, FindingView, MigrationView};
use tokio::sync::MutexGuard;

use crate::{
    app::{App, AppState},
    problem::ProblemDetails,
};

/// Looks at everything the server stands on, and changes nothing. Each finding is a row; `ok` is false where something
/// is wrong. All units are read with their attempts, so only one look is taken at a time.
#[cfg_attr(test, utoipa::path(get, path = "/v1/doctor", tag = "doctor",
    responses((status = 200, body = Vec<CheckupView>),
              (status = 503, description = "another look is being taken", body = ProblemDetails))))]
pub(crate) async fn doctor(app: AppState) -> Result<Answer<Vec<CheckupView>>, ProblemDetails> {
    let _looking = alone(&app)?;
    Ok(Answer(app.ops.checkups().await))
}

/// What is wrong with partitions: each beside its ledger, and every raw partition that has authority read to its end.
/// Nothing, if all is well.
#[cfg_attr(test, utoipa::path(get, path = "/v1/verify", tag = "doctor",
    responses((status = 200, body = Vec<FindingView>),
              (status = 503, description = "another look is being taken", body = ProblemDetails))))]
pub(crate) async fn verify(app: AppState) -> Result<Answer<Vec<FindingView>>, ProblemDetails> {
    let _looking = alone(&app)?;
    let report = app.ops.verify().await?;
    Ok(Answer(report.findings.into_iter().map(FindingView::from).collect()))
}

/// A look at everything keeps the store busy, so there is one at a time.
fn alone(app: &App) -> Result<MutexGuard<'_, ()>, ProblemDetails> {
    app.doctor.try_lock().map_err(|_| {
        let what = "somebody has everything looked at just now";
        ProblemDetails::new(StatusCode::SERVICE_UNAVAILABLE, what).retry_after(1)
    })
}

/// The migrations that the store has, and those that are known besides. A server starts only on a store that has
/// all of them.
#[cfg_attr(test, utoipa::path(get, path = "/v1/db", tag = "db",
    responses((status = 200, body = Vec<MigrationView>), (status = 503, body = ProblemDetails))))]
pub(crate) async fn db(app: AppState) -> Result<Answer<Vec<MigrationView>>, ProblemDetails> {
    Ok(Answer(app.ops.migrations().await?))
}
