//! Whether everything is as it must be, and which schema the store has.

use axum::{Json as Answer, http::StatusCode};
use redrive_ops::shown::{CheckupShown, FindingShown, MigrationShown};
use tokio::sync::MutexGuard;

use crate::{
    app::{App, Shared},
    problem::Problem,
};

/// Looks at everything the server stands on, and changes nothing. Each finding is a row; `ok` is false where something
/// is wrong. All units are read with their attempts, so only one look is taken at a time.
#[utoipa::path(get, path = "/v1/doctor", tag = "doctor",
    responses((status = 200, body = Vec<CheckupShown>),
              (status = 503, description = "another look is being taken", body = Problem)))]
pub(crate) async fn doctor(app: Shared) -> Result<Answer<Vec<CheckupShown>>, Problem> {
    let _looking = alone(&app)?;
    Ok(Answer(app.desk.checkups().await))
}

/// What is wrong with partitions: each beside its ledger, and every raw partition that has authority read to its end.
/// Nothing, if all is well.
#[utoipa::path(get, path = "/v1/verify", tag = "doctor",
    responses((status = 200, body = Vec<FindingShown>),
              (status = 503, description = "another look is being taken", body = Problem)))]
pub(crate) async fn verify(app: Shared) -> Result<Answer<Vec<FindingShown>>, Problem> {
    let _looking = alone(&app)?;
    let report = app.desk.verify().await?;
    Ok(Answer(report.findings.into_iter().map(FindingShown::from).collect()))
}

/// A look at everything keeps the store busy, so there is one at a time.
fn alone(app: &App) -> Result<MutexGuard<'_, ()>, Problem> {
    app.doctor.try_lock().map_err(|_| {
        let what = "somebody has everything looked at just now";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, what).retry_after(1)
    })
}

/// The migrations that the store has, and those that are known besides. A server starts only on a store that has
/// all of them.
#[utoipa::path(get, path = "/v1/db", tag = "db",
    responses((status = 200, body = Vec<MigrationShown>), (status = 503, body = Problem)))]
pub(crate) async fn db(app: Shared) -> Result<Answer<Vec<MigrationShown>>, Problem> {
    Ok(Answer(app.desk.migrations().await?))
}
