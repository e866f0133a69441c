//! `/v1/dead-letters` and `/v1/samples`.

use axum::{Extension, Json as Answer, http::StatusCode};
use redrive_core::{SampleId, SampleStatus};
use redrive_ops::views::{DeadCauseView, SampleView, SampleWithLedger};
use redrive_store::Written;
use serde::Deserialize;
use serde_json::Value;

use super::{
    bulk::data_token,
    page::{ListPage, limit},
    resource::list_page,
};
use crate::{
    app::{App, AppState},
    extract::{Json, PathParams, QueryParams},
    guard::Caller,
    params::{OF_LISTS, OF_NEWEST, Pairs, Params},
    problem::ProblemDetails,
};

/// Such a list has no position to continue at, so its size cannot be bounded by bytes.
const MAX_NEWEST: u32 = 1_000;

/// Lists dead letters by id or the newest first, without their data.
pub(crate) async fn list(
    app: AppState,
    QueryParams(pairs): QueryParams<Pairs>,
) -> Result<Answer<ListPage<SampleView>>, ProblemDetails> {
    let params = Params::<SampleView>::read(&pairs, OF_NEWEST)?;
    if !params.newest {
        return list_page(&app, &params).await.map(Answer);
    }
    if params.after.is_some() {
        let what = "after: a list with `newest` has one page";
        return Err(ProblemDetails::bad_request(what).allowed("`failed_until`"));
    }
    let limit = limit(params.limit)?;
    if limit > MAX_NEWEST {
        let what = format!("limit: {limit} is out of range with `newest`");
        return Err(ProblemDetails::bad_request(what).allowed(format!("1 to {MAX_NEWEST}")));
    }
    let newest = app.ops.store().newest_dead_samples(&params.selection, limit).await?;
    Ok(Answer(ListPage::single(newest.into_iter().map(SampleView::from).collect())))
}

/// Groups dead letters by cause, most frequent first.
pub(crate) async fn causes(
    app: AppState,
    QueryParams(pairs): QueryParams<Pairs>,
) -> Result<Answer<Vec<DeadCauseView>>, ProblemDetails> {
    let params = Params::<SampleView>::read(&pairs, OF_LISTS)?;
    if params.after.is_some() {
        return Err(ProblemDetails::bad_request("after: causes have one page").allowed("`limit`"));
    }
    let causes = app.ops.store().dead_causes(&params.selection, limit(params.limit)?).await?;
    Ok(Answer(causes.into_iter().map(DeadCauseView::from).collect()))
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
    edit_sample(&app, &caller, id, &edit.data, None, edit.reason.as_deref()).await.map(Answer)
}

/// What a form shows for a line of the source that was not a sample.
pub(crate) const NO_DATA: &str = "{}";

pub(crate) async fn edit_sample(
    app: &App,
    caller: &Caller,
    id: i64,
    data: &Value,
    token: Option<&str>,
    reason: Option<&str>,
) -> Result<SampleView, ProblemDetails> {
    let unknown = || ProblemDetails::not_found(format!("there is no sample {id}"));
    let found = app.ops.store().samples_by_id(&[SampleId(id)]).await?.pop();
    let sample = found.ok_or_else(unknown)?;
    let by = app.operator(caller, reason);
    let edits = vec![(&sample, data.to_string())];
    let seen = data_token(sample.data.as_deref().unwrap_or(NO_DATA));
    if token.is_some_and(|token| token != seen)
        || app.ops.pipelines().edit(edits, &by).await? != [Written::Applied]
    {
        let what = match sample.status {
            SampleStatus::Dlq => format!("sample {id} has changed meanwhile; try again"),
            status => format!("sample {id} is {}: only a dead letter can be edited", status.name()),
        };
        return Err(ProblemDetails::new(StatusCode::CONFLICT, what));
    }
    let found = app.ops.store().samples_by_id(&[SampleId(id)]).await?.pop();
    Ok(found.ok_or_else(unknown)?.into())
}
