//! Dead letters.

use axum::{Extension, Json as Answer};
use redrive_core::{PipelineRunId, SampleId, SampleStatus};
use redrive_engine::RunMode;
use redrive_ops::views::{CauseView, SampleChangeView, SampleView, SampleWithLedger};
use redrive_store::{SampleFilter, SampleRecord};
use serde::Deserialize;

use super::{
    bulk::{BulkOptions, BulkOutcome, MAX_UNITS, seen},
    page::{ListPage, limit},
};
use crate::{
    app::{App, AppState},
    extract::{Json, PathParams, QueryParams},
    guard::Caller,
    problem::ProblemDetails,
};

/// Which dead letters. Everything given must match.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub(crate) struct DeadLetterQuery {
    /// Of this pipeline alone.
    pipeline: Option<String>,
    /// Of this run alone.
    run: Option<i64>,
    /// That died at this stage.
    stage: Option<String>,
    /// With this text in the error.
    error: Option<String>,
    /// With this code.
    code: Option<String>,
    /// Of this cause.
    cause: Option<String>,
    /// At most so many, up to 10000; 100 unless given.
    limit: Option<u32>,
    /// Those alone that come after this id.
    after: Option<i64>,
}

impl DeadLetterQuery {
    fn filter(&self) -> SampleFilter {
        SampleFilter {
            pipeline: self.pipeline.clone(),
            run: self.run.map(PipelineRunId),
            status: Some(SampleStatus::Dlq),
            stage: self.stage.clone(),
            error: self.error.clone(),
            code: self.code.clone(),
            cause: self.cause.clone(),
        }
    }
}

/// Dead letters by id, without what they hold.
#[cfg_attr(test, utoipa::path(get, path = "/v1/dead-letters", tag = "dead letters", params(DeadLetterQuery),
    responses((status = 200, body = ListPage<SampleView>), (status = 400, body = ProblemDetails))))]
pub(crate) async fn list(
    app: AppState,
    QueryParams(query): QueryParams<DeadLetterQuery>,
) -> Result<Answer<ListPage<SampleView>>, ProblemDetails> {
    let limit = limit(query.limit)?;
    let after = SampleId(query.after.unwrap_or(0));
    let found = app.ops.samples(query.filter(), after, limit).await?;
    let last = found.last().map(|sample| sample.id.to_string());
    Ok(Answer(ListPage::new(found, limit, last)))
}

/// What they died of, the most frequent first.
#[cfg_attr(test, utoipa::path(get, path = "/v1/dead-letters/causes", tag = "dead letters", params(DeadLetterQuery),
    responses((status = 200, body = Vec<CauseView>), (status = 400, body = ProblemDetails))))]
pub(crate) async fn causes(
    app: AppState,
    QueryParams(query): QueryParams<DeadLetterQuery>,
) -> Result<Answer<Vec<CauseView>>, ProblemDetails> {
    let limit = limit(query.limit)?;
    if query.after.is_some() {
        return Err(
            ProblemDetails::bad_request("after: causes come on one page").allowed("`limit`")
        );
    }
    let causes = app.ops.store().dead_causes(&query.filter(), limit).await?;
    Ok(Answer(causes.into_iter().map(CauseView::from).collect()))
}

/// A sample, dead or not, with its attempts.
#[cfg_attr(test, utoipa::path(get, path = "/v1/samples/{id}", tag = "dead letters", params(("id" = i64, Path)),
    responses((status = 200, body = SampleWithLedger), (status = 404, body = ProblemDetails))))]
pub(crate) async fn show(
    app: AppState,
    PathParams(id): PathParams<i64>,
) -> Result<Answer<SampleWithLedger>, ProblemDetails> {
    let found = app.ops.sample(SampleId(id)).await?;
    found.map(Answer).ok_or_else(|| ProblemDetails::not_found(format!("there is no sample {id}")))
}

/// Which dead letters to bring back: some by id, or those that match.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct DeadLetterActionRequest {
    /// These.
    #[serde(default)]
    pub(crate) ids: Vec<i64>,
    /// Of this pipeline alone.
    pub(crate) pipeline: Option<String>,
    /// Of this run alone.
    pub(crate) run: Option<i64>,
    /// That died at this stage.
    pub(crate) stage: Option<String>,
    /// With this text in the error.
    pub(crate) error: Option<String>,
    /// With this code.
    pub(crate) code: Option<String>,
    /// Of this cause.
    pub(crate) cause: Option<String>,
    /// All of them: without a filter nothing is done unless you say so.
    #[serde(default)]
    pub(crate) all: bool,
    /// Only say what would become of each, and how to say yes to it.
    #[serde(default)]
    pub(crate) dry_run: bool,
    /// What the dry run answered. Up to 20 that are named one by one need none.
    pub(crate) token: Option<String>,
    /// Why, for the journal.
    pub(crate) reason: Option<String>,
}

impl DeadLetterActionRequest {
    fn query(&self) -> DeadLetterQuery {
        DeadLetterQuery {
            pipeline: self.pipeline.clone(),
            run: self.run,
            stage: self.stage.clone(),
            error: self.error.clone(),
            code: self.code.clone(),
            cause: self.cause.clone(),
            limit: None,
            after: None,
        }
    }

    fn is_filtered(&self) -> bool {
        let Self { pipeline, run, stage, error, code, cause, .. } = self;
        run.is_some() || [pipeline, stage, error, code, cause].iter().any(|it| it.is_some())
    }
}

/// Brings dead letters back to the stage they died at.
#[cfg_attr(test, utoipa::path(post, path = "/v1/dead-letters/reprocess", tag = "dead letters", request_body = DeadLetterActionRequest,
    responses((status = 200, body = BulkOutcome<SampleChangeView>), (status = 400, body = ProblemDetails),
              (status = 409, body = ProblemDetails), (status = 422, body = ProblemDetails), (status = 428, body = ProblemDetails))))]
pub(crate) async fn reprocess(
    app: AppState,
    Extension(caller): Extension<Caller>,
    Json(action): Json<DeadLetterActionRequest>,
) -> Result<Answer<BulkOutcome<SampleChangeView>>, ProblemDetails> {
    reprocess_dead_letters(&app, &caller, action).await.map(Answer)
}

/// The same for the dashboard.
pub(crate) async fn reprocess_dead_letters(
    app: &App,
    caller: &Caller,
    action: DeadLetterActionRequest,
) -> Result<BulkOutcome<SampleChangeView>, ProblemDetails> {
    let by_id = !action.ids.is_empty();
    if by_id == (action.is_filtered() || action.all) {
        let what = "which dead letters is not clear; nothing was changed";
        return Err(ProblemDetails::bad_request(what).allowed("`ids`, or filters, or `all`"));
    }
    let control = app.ops.pipelines();
    let mut ids: Vec<SampleId> = action.ids.iter().copied().map(SampleId).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut foreseen = Vec::new();
    let tell = |id, sample: Option<&SampleRecord>, change| {
        foreseen.push(SampleChangeView::new(id, sample, change, RunMode::DryRun));
    };
    if by_id {
        control.reprocess_these(&ids, None, tell).await?;
    } else {
        let most = MAX_UNITS as u64 + 1;
        control.reprocess(&action.query().filter(), most, None, tell).await?;
        ids = foreseen.iter().map(|it| SampleId(it.id)).collect();
    }
    let how = BulkOptions { dry_run: action.dry_run, token: action.token, reason: action.reason };
    if let Some(seen) = seen("reprocess", foreseen, &how, by_id)? {
        return Ok(seen);
    }
    let by = app.operator(caller, how.reason.as_deref());
    let mut changes = Vec::new();
    let tell = |id, sample: Option<&SampleRecord>, change| {
        changes.push(SampleChangeView::new(id, sample, change, RunMode::Real));
    };
    control.reprocess_these(&ids, Some(&by), tell).await?;
    Ok(BulkOutcome::done(changes))
}
