//! `GET /v1/partitions` and `GET /v1/gaps`.

use axum::Json as Answer;
use redrive_core::{AttemptNumber, LogicalDate, PartitionKey};
use redrive_ops::{
    DeclaredSource, GapFilter,
    views::{AttemptView, GapView, PartitionView},
};
use redrive_store::AttemptRecord;
use serde::Deserialize;

use super::page::{ListPage, PageBuilder};
use crate::{
    app::AppState,
    extract::{PathParams, QueryParams},
    problem::ProblemDetails,
};

pub(super) fn day(field: &str, text: Option<&str>) -> Result<Option<LogicalDate>, ProblemDetails> {
    let read = |text: &str| {
        text.parse().map_err(|_| {
            ProblemDetails::bad_request(format!("{field}: {text:?} is not a day"))
                .allowed("YYYY-MM-DD")
        })
    };
    text.map(read).transpose()
}

/// The path segments of a partition key.
pub(crate) type KeyParts = (String, String, String, String);

pub(crate) fn key_of(parts: &KeyParts) -> Result<PartitionKey, ProblemDetails> {
    let (source, customer, query, date) = parts;
    let date = day("logical_date", Some(date))?
        .ok_or_else(|| ProblemDetails::bad_request("logical_date is missing"))?;
    PartitionKey::new(source, customer, query, date)
        .map_err(|error| ProblemDetails::bad_request(error.to_string()))
}

/// Returns a partition. Without an entry the status is null.
#[cfg_attr(test, utoipa::path(get, path = "/v1/partitions/{source}/{customer_id}/{query_name}/{logical_date}",
    tag = "partitions",
    params(("source" = String, Path), ("customer_id" = String, Path), ("query_name" = String, Path),
           ("logical_date" = String, Path)),
    responses((status = 200, body = PartitionView), (status = 400, body = ProblemDetails))))]
pub(crate) async fn show(
    app: AppState,
    PathParams(parts): PathParams<KeyParts>,
) -> Result<Answer<PartitionView>, ProblemDetails> {
    let key = key_of(&parts)?;
    Ok(Answer(app.ops.inspect_partition(&key).await?))
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub(crate) struct HistoryQuery {
    /// Rows of the page, 1 to 10000; default 100.
    limit: Option<u32>,
    /// The `next` of the previous page.
    after: Option<u32>,
}

/// Lists the attempts at a partition by number.
#[cfg_attr(test, utoipa::path(get, path = "/v1/partitions/{source}/{customer_id}/{query_name}/{logical_date}/history",
    tag = "partitions",
    params(("source" = String, Path), ("customer_id" = String, Path), ("query_name" = String, Path),
           ("logical_date" = String, Path), HistoryQuery),
    responses((status = 200, body = ListPage<AttemptView>), (status = 400, body = ProblemDetails),
              (status = 404, body = ProblemDetails))))]
pub(crate) async fn history(
    app: AppState,
    PathParams(parts): PathParams<KeyParts>,
    QueryParams(query): QueryParams<HistoryQuery>,
) -> Result<Answer<ListPage<AttemptView>>, ProblemDetails> {
    let key = key_of(&parts)?;
    let found = app.ops.partition(&key).await?;
    let found =
        found.ok_or_else(|| ProblemDetails::not_found(format!("partition:{key} has no entry")))?;
    let after = query.after.map(AttemptNumber);
    let mut page = PageBuilder::new(query.limit, after)?;
    while let Some((after, rows)) = page.next_read() {
        let attempts =
            app.ops.partition_attempts(&found, after.unwrap_or(AttemptNumber(0)), rows).await?;
        let has_more = attempts.len() >= rows as usize;
        let view = |attempt: AttemptRecord| AttemptView::from(&attempt);
        page.add(attempts, has_more, |attempt| attempt.attempt, view);
    }
    Ok(Answer(page.page()))
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub(crate) struct GapsQuery {
    source: Option<String>,
    customer_id: Option<String>,
    query_name: Option<String>,
    /// First day, as YYYY-MM-DD.
    since: Option<String>,
    /// Last day, inclusive.
    until: Option<String>,
}

/// Lists the days that are due and not good.
#[cfg_attr(test, utoipa::path(get, path = "/v1/gaps", tag = "partitions", params(GapsQuery),
    responses((status = 200, body = Vec<GapView>), (status = 400, body = ProblemDetails),
              (status = 404, body = ProblemDetails))))]
pub(crate) async fn gaps(
    app: AppState,
    QueryParams(query): QueryParams<GapsQuery>,
) -> Result<Answer<Vec<GapView>>, ProblemDetails> {
    let filter = GapFilter {
        customer_id: query.customer_id,
        query_name: query.query_name,
        since: day("since", query.since.as_deref())?,
        until: day("until", query.until.as_deref())?,
    };
    let declared = app.ops.declared().map(|declared| declared.sources.as_slice());
    let sources: Vec<&DeclaredSource> = match &query.source {
        None => declared.unwrap_or_default().iter().collect(),
        Some(name) => {
            let found = declared.and_then(|all| all.iter().find(|source| source.name == *name));
            let missing = || {
                ProblemDetails::not_found(format!("the configuration declares no source {name:?}"))
            };
            vec![found.ok_or_else(missing)?]
        }
    };
    let mut rows = Vec::new();
    for source in sources {
        for (series, gaps) in app.ops.gaps(source, &filter).await? {
            rows.extend(gaps.iter().map(|gap| GapView::new(&series, gap)));
        }
    }
    Ok(Answer(rows))
}
