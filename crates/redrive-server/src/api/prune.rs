//! `/v1/prune`.

use axum::{Extension, Json as Answer, http::StatusCode};
use redrive_engine::{Prunable, PruneError};
use redrive_ops::{parse_instant, views::PruneView};
use redrive_store::PruneFilter;
use serde::Deserialize;

use super::bulk::{data_token, nothing_matches};
use crate::{app::AppState, extract::Json, guard::Caller, problem::ProblemDetails};

/// Selects finished rows to export and remove.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct PruneRequest {
    /// Rows that have not changed since this instant.
    before: String,
    /// Only runs of this queue, and no samples unless `pipeline` is given.
    queue: Option<String>,
    /// Only samples of this pipeline, and no runs unless `queue` is given.
    pipeline: Option<String>,
    /// Only return the counts and the token that confirms them.
    #[serde(default)]
    dry_run: bool,
    /// The token of a dry run.
    token: Option<String>,
    /// The reason, for the journal.
    reason: Option<String>,
}

/// Exports finished, old rows to files in the configured folder and removes them. The prune continues when the client
/// disconnects.
#[cfg_attr(test, utoipa::path(post, path = "/v1/prune", tag = "prune", request_body = PruneRequest,
    responses((status = 200, body = PruneView), (status = 400, body = ProblemDetails),
              (status = 409, body = ProblemDetails), (status = 422, body = ProblemDetails),
              (status = 428, body = ProblemDetails), (status = 503, body = ProblemDetails))))]
pub(crate) async fn prune(
    app: AppState,
    Extension(caller): Extension<Caller>,
    Json(action): Json<PruneRequest>,
) -> Result<Answer<PruneView>, ProblemDetails> {
    let before = parse_instant(&action.before).map_err(|allowed| {
        ProblemDetails::bad_request("before: not an instant").allowed(allowed)
    })?;
    if before > app.ops.now() {
        let what = "before: the instant is in the future; nothing was removed";
        return Err(ProblemDetails::bad_request(what).allowed("an instant in the past"));
    }
    let filter = PruneFilter { before, queue: action.queue, pipeline: action.pipeline };
    let name = format!("prune {filter:?}");
    let prune = app.ops.prune(filter);
    if action.dry_run {
        let preview = PruneView::preview(before, prune.prunable().await?);
        let token = Some(data_token(&format!("{name} {preview:?}")));
        return Ok(Answer(PruneView { token, ..preview }));
    }
    let folder = app.archive.clone().ok_or_else(|| {
        let what = "the configuration names no export folder; nothing was removed";
        ProblemDetails::new(StatusCode::UNPROCESSABLE_ENTITY, what)
            .allowed("`export` in [prune] of the configuration, or the command line")
    })?;
    let pruning = app.pruning.clone().try_lock_owned().map_err(|_| {
        let what = "another prune is running; nothing was removed";
        ProblemDetails::new(StatusCode::CONFLICT, what).allowed("a new request after that prune")
    })?;
    let found = prune.prunable().await?;
    if found == Prunable::default() {
        return Err(nothing_matches());
    }
    // `before` is fixed, so rows can only leave the selection: equal counts mean the same rows.
    let seen = data_token(&format!("{name} {:?}", PruneView::preview(before, found)));
    if action.token.as_ref() != Some(&seen) {
        return Err(match action.token {
            Some(_) => {
                let what = "the matching rows have changed since the dry run; nothing was removed";
                ProblemDetails::new(StatusCode::CONFLICT, what)
            }
            None => {
                let what = "a prune requires the token of a dry run; nothing was removed";
                ProblemDetails::new(StatusCode::PRECONDITION_REQUIRED, what)
            }
        }
        .allowed("`dry_run: true` first, then the prune with its `token`"));
    }
    let by = app.operator(&caller, action.reason.as_deref());
    let task = tokio::spawn(async move {
        let _pruning = pruning;
        prune.run(&folder, &by).await
    });
    match task.await {
        Ok(report) => Ok(Answer(PruneView::done(before, &report?))),
        Err(_) => Err(ProblemDetails::new(StatusCode::SERVICE_UNAVAILABLE, INTERRUPTED)),
    }
}

const INTERRUPTED: &str = "the prune was interrupted; every removed row is in a complete file";

/// The response omits file paths, which may be confidential; the log has them.
impl From<PruneError> for ProblemDetails {
    fn from(error: PruneError) -> Self {
        match error {
            PruneError::Store(error) => Self::from(error).with_detail(INTERRUPTED),
            PruneError::NameTaken(_) => Self::new(StatusCode::CONFLICT, error.to_string()),
            error => {
                tracing::warn!(error = &error as &dyn std::error::Error, "the prune failed");
                Self::new(StatusCode::SERVICE_UNAVAILABLE, INTERRUPTED)
            }
        }
    }
}
