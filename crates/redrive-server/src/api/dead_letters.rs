//! `/v1/dead-letters` and `/v1/samples`.

use axum::{Extension, Json as Answer, http::StatusCode};
use jiff::Timestamp;
use redrive_core::{PipelineRunId, SampleId, SampleStatus};
use redrive_engine::RunMode;
use redrive_ops::{
    parse_instant,
    views::{CauseView, SampleChangeView, SampleView, SampleWithLedger},
};
use redrive_store::{PageLimit, SampleFilter, SampleRecord, Written};
use serde::Deserialize;
use serde_json::Value;

use super::{
    bulk::{BulkOptions, BulkOutcome, MAX_UNITS, confirm},
    page::{ListPage, PageBuilder, limit},
};
use crate::{
    app::{App, AppState},
    extract::{Json, PathParams, QueryParams},
    guard::Caller,
    problem::ProblemDetails,
};

/// Such a list has no position to continue at, so its size cannot be bounded by bytes.
const MAX_NEWEST: u32 = 1_000;

/// Every given field must match.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub(crate) struct DeadLetterQuery {
    pipeline: Option<String>,
    /// The pipeline run.
    run: Option<i64>,
    stage: Option<String>,
    /// Text within the error message.
    error: Option<String>,
    code: Option<String>,
    /// The fingerprint of a cause.
    cause: Option<String>,
    /// Last failures at this time or later.
    failed_since: Option<String>,
    /// Last failures before this time.
    failed_until: Option<String>,
    /// Sort by the time of the last failure, the newest first, up to 1000; `failed_until` selects the next page.
    newest: Option<bool>,
    /// Rows of the page, 1 to 10000; default 100.
    limit: Option<u32>,
    /// The `next` of the previous page.
    after: Option<i64>,
}

impl DeadLetterQuery {
    fn filter(&self) -> Result<SampleFilter, ProblemDetails> {
        Ok(SampleFilter {
            pipeline: self.pipeline.clone(),
            run: self.run.map(PipelineRunId),
            status: Some(SampleStatus::Dlq),
            stage: self.stage.clone(),
            error: self.error.clone(),
            code: self.code.clone(),
            cause: self.cause.clone(),
            failed_since: time("failed_since", self.failed_since.as_deref())?,
            failed_until: time("failed_until", self.failed_until.as_deref())?,
        })
    }
}

fn time(field: &str, text: Option<&str>) -> Result<Option<Timestamp>, ProblemDetails> {
    let read = |text| {
        parse_instant(text).map_err(|allowed| {
            ProblemDetails::bad_request(format!("{field}: {text:?} is not a time")).allowed(allowed)
        })
    };
    text.map(read).transpose()
}

/// Lists dead letters by id or the newest first, without their data.
#[cfg_attr(test, utoipa::path(get, path = "/v1/dead-letters", tag = "dead letters", params(DeadLetterQuery),
    responses((status = 200, body = ListPage<SampleView>), (status = 400, body = ProblemDetails))))]
pub(crate) async fn list(
    app: AppState,
    QueryParams(query): QueryParams<DeadLetterQuery>,
) -> Result<Answer<ListPage<SampleView>>, ProblemDetails> {
    let after = SampleId(query.after.unwrap_or(0));
    if query.newest == Some(true) {
        let limit = limit(query.limit)?;
        if limit > MAX_NEWEST {
            let what = format!("limit: {limit} is out of range with `newest`");
            return Err(ProblemDetails::bad_request(what).allowed(format!("1 to {MAX_NEWEST}")));
        }
        let newest = app.ops.store().newest_dead_samples(&query.filter()?, limit).await?;
        let found = newest.into_iter().map(SampleView::from).map(SampleView::without_data);
        return Ok(Answer(ListPage::single(found.collect())));
    }
    let filter = query.filter()?;
    let mut page = PageBuilder::new(query.limit, after)?;
    while let Some((after, rows)) = page.next_read() {
        let limit = PageLimit::without_data(rows);
        let found = app.ops.store().samples_page(&filter, after, limit).await?;
        let has_more = limit.is_reached(&found);
        let view = |sample| SampleView::from(sample).without_data();
        page.add(found, has_more, |sample| sample.id, view);
    }
    Ok(page.answer())
}

/// Groups dead letters by cause, most frequent first.
#[cfg_attr(test, utoipa::path(get, path = "/v1/dead-letters/causes", tag = "dead letters", params(DeadLetterQuery),
    responses((status = 200, body = Vec<CauseView>), (status = 400, body = ProblemDetails))))]
pub(crate) async fn causes(
    app: AppState,
    QueryParams(query): QueryParams<DeadLetterQuery>,
) -> Result<Answer<Vec<CauseView>>, ProblemDetails> {
    let limit = limit(query.limit)?;
    if query.after.is_some() {
        return Err(ProblemDetails::bad_request("after: causes have one page").allowed("`limit`"));
    }
    let causes = app.ops.store().dead_causes(&query.filter()?, limit).await?;
    Ok(Answer(causes.into_iter().map(CauseView::from).collect()))
}

/// Returns a sample with its attempts.
#[cfg_attr(test, utoipa::path(get, path = "/v1/samples/{id}", tag = "dead letters", params(("id" = i64, Path)),
    responses((status = 200, body = SampleWithLedger), (status = 404, body = ProblemDetails))))]
pub(crate) async fn show(
    app: AppState,
    PathParams(id): PathParams<i64>,
) -> Result<Answer<SampleWithLedger>, ProblemDetails> {
    let found = app.ops.sample(SampleId(id)).await?;
    found.map(Answer).ok_or_else(|| ProblemDetails::not_found(format!("there is no sample {id}")))
}

/// New data for a dead letter.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct SampleEdit {
    data: Value,
    /// The reason, for the journal.
    reason: Option<String>,
}

/// Replaces the data of a dead letter. A line of the source that was not a sample becomes one. `POST
/// /v1/dead-letters/reprocess` then tries it again.
#[cfg_attr(test, utoipa::path(post, path = "/v1/samples/{id}/edit", tag = "dead letters", params(("id" = i64, Path)),
    request_body = SampleEdit,
    responses((status = 200, body = SampleView), (status = 404, body = ProblemDetails),
              (status = 409, body = ProblemDetails))))]
pub(crate) async fn edit(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(id): PathParams<i64>,
    Json(edit): Json<SampleEdit>,
) -> Result<Answer<SampleView>, ProblemDetails> {
    edit_sample(&app, &caller, id, &edit.data, edit.reason.as_deref()).await.map(Answer)
}

pub(crate) async fn edit_sample(
    app: &App,
    caller: &Caller,
    id: i64,
    data: &Value,
    reason: Option<&str>,
) -> Result<SampleView, ProblemDetails> {
    let unknown = || ProblemDetails::not_found(format!("there is no sample {id}"));
    let found = app.ops.store().samples_by_id(&[SampleId(id)]).await?.pop();
    let sample = found.ok_or_else(unknown)?;
    let by = app.operator(caller, reason);
    let edits = vec![(&sample, data.to_string())];
    if app.ops.pipelines().edit(edits, &by).await? != [Written::Applied] {
        let what = match sample.status {
            SampleStatus::Dlq => format!("sample {id} has changed meanwhile; try again"),
            status => format!("sample {id} is {}: only a dead letter can be edited", status.name()),
        };
        return Err(ProblemDetails::new(StatusCode::CONFLICT, what));
    }
    let found = app.ops.store().samples_by_id(&[SampleId(id)]).await?.pop();
    Ok(found.ok_or_else(unknown)?.into())
}

/// Selects dead letters by `ids`, by filters, or all.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct DeadLetterActionRequest {
    #[serde(default)]
    pub(crate) ids: Vec<i64>,
    pub(crate) pipeline: Option<String>,
    /// The pipeline run.
    pub(crate) run: Option<i64>,
    pub(crate) stage: Option<String>,
    /// Text within the error message.
    pub(crate) error: Option<String>,
    pub(crate) code: Option<String>,
    /// The fingerprint of a cause.
    pub(crate) cause: Option<String>,
    /// Required without filters: act on all units.
    #[serde(default)]
    pub(crate) all: bool,
    /// Only return the expected outcomes and the token that confirms them.
    #[serde(default)]
    pub(crate) dry_run: bool,
    /// The token of a dry run. Not needed for up to 20 `ids`.
    pub(crate) token: Option<String>,
    /// The reason, for the journal.
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
            ..DeadLetterQuery::default()
        }
    }

    fn is_filtered(&self) -> bool {
        let Self { pipeline, run, stage, error, code, cause, .. } = self;
        run.is_some() || [pipeline, stage, error, code, cause].iter().any(|it| it.is_some())
    }
}

/// Retries dead letters at the stage of their failure.
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

pub(crate) async fn reprocess_dead_letters(
    app: &App,
    caller: &Caller,
    action: DeadLetterActionRequest,
) -> Result<BulkOutcome<SampleChangeView>, ProblemDetails> {
    let by_id = !action.ids.is_empty();
    if by_id == (action.is_filtered() || action.all) {
        let what = "the selection is empty or ambiguous; nothing was changed";
        return Err(ProblemDetails::bad_request(what).allowed("either `ids`, or filters, or `all`"));
    }
    let control = app.ops.pipelines();
    let mut ids: Vec<SampleId> = action.ids.iter().copied().map(SampleId).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut expected = Vec::new();
    let collect = |id, sample: Option<&SampleRecord>, change| {
        expected.push(SampleChangeView::new(id, sample, change, RunMode::DryRun));
    };
    if by_id {
        control.reprocess_by_id(&ids, None, collect).await?;
    } else {
        let most = MAX_UNITS as u64 + 1;
        control.reprocess(&action.query().filter()?, most, None, collect).await?;
        ids = expected.iter().map(|it| SampleId(it.id)).collect();
    }
    let options =
        BulkOptions { dry_run: action.dry_run, token: action.token, reason: action.reason };
    if let Some(dry_run) = confirm("reprocess", expected, &options, by_id)? {
        return Ok(dry_run);
    }
    let by = app.operator(caller, options.reason.as_deref());
    let mut changes = Vec::new();
    let collect = |id, sample: Option<&SampleRecord>, change| {
        changes.push(SampleChangeView::new(id, sample, change, RunMode::Real));
    };
    control.reprocess_by_id(&ids, Some(&by), collect).await?;
    Ok(BulkOutcome::done(changes))
}
