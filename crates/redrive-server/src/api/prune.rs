//! Taking what is finished and old out of the store.

use axum::{Extension, Json as Answer, http::StatusCode};
use redrive_engine::{Prunable, PruneError};
use redrive_ops::{parse_instant, views::PruneView};
use redrive_store::PruneFilter;
use serde::Deserialize;

use super::bulk::{ConfirmationToken, nothing_matches};
use crate::{app::AppState, extract::Json, guard::Caller, problem::ProblemDetails};

/// What may go.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct PruneRequest {
    /// What has not been touched since this instant.
    before: String,
    /// Runs of this queue, and no samples unless `pipeline` is given too.
    queue: Option<String>,
    /// Samples of this pipeline, and no runs unless `queue` is given too.
    pipeline: Option<String>,
    /// Only say how much would go, and how to say yes to it.
    #[serde(default)]
    dry_run: bool,
    /// What the dry run answered.
    token: Option<String>,
    /// Why, for the journal.
    reason: Option<String>,
}

/// Writes what is finished and old to files, in the folder that the configuration names, and removes it. It goes on to its
/// end also if nobody waits for the answer.
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
        ProblemDetails::bad_request("before: this is no instant").allowed(allowed)
    })?;
    if before > app.ops.now() {
        let what = "before: this is yet to come; nothing was removed";
        return Err(ProblemDetails::bad_request(what).allowed("an instant that has passed"));
    }
    let filter = PruneFilter { before, queue: action.queue, pipeline: action.pipeline };
    let name = format!("prune {filter:?}");
    let prune = app.ops.prune(filter);
    if action.dry_run {
        let foreseen = PruneView::preview(before, prune.prunable().await?);
        let token = Some(ConfirmationToken::of(&name, [&foreseen]).token());
        return Ok(Answer(PruneView { token, ..foreseen }));
    }
    let folder = app.archive.clone().ok_or_else(|| {
        let what = "the configuration names no folder to write to; nothing was removed";
        ProblemDetails::new(StatusCode::UNPROCESSABLE_ENTITY, what)
            .allowed("`export` in [prune] of the file, or the command line")
    })?;
    let pruning = app.pruning.clone().try_lock_owned().map_err(|_| {
        let what = "another prune is going on; nothing was removed";
        ProblemDetails::new(StatusCode::CONFLICT, what).allowed("another try when it has ended")
    })?;
    let found = prune.prunable().await?;
    if found == Prunable::default() {
        return Err(nothing_matches());
    }
    // With a moment that stays, what may go can only become less; as many are therefore the same.
    ConfirmationToken::of(&name, [&PruneView::preview(before, found)])
        .confirm(action.token.as_deref())?;
    let by = app.operator(&caller, action.reason.as_deref());
    let going = tokio::spawn(async move {
        let _pruning = pruning;
        prune.run(&folder, &by).await
    });
    match going.await {
        Ok(report) => Ok(Answer(PruneView::done(before, &report?))),
        Err(_) => Err(ProblemDetails::new(StatusCode::SERVICE_UNAVAILABLE, STOPPED)),
    }
}

const STOPPED: &str =
    "the prune did not come to its end; nothing is gone that is not in a whole file";

/// Where files are kept is nothing that a stranger should know; the log has it.
impl From<PruneError> for ProblemDetails {
    fn from(error: PruneError) -> Self {
        match error {
            PruneError::Store(error) => Self::from(error).more(STOPPED),
            PruneError::NameTaken(_) => Self::new(StatusCode::CONFLICT, error.to_string()),
            error => {
                tracing::warn!(error = &error as &dyn std::error::Error, "a prune stopped");
                Self::new(StatusCode::SERVICE_UNAVAILABLE, STOPPED)
            }
        }
    }
}
