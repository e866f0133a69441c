//! `GET /v1/partitions` and `GET /v1/gaps`.

use std::fmt;

use axum::Json as Answer;
use redrive_core::{AttemptNumber, LogicalDate, PartitionKey, PartitionStatus};
use redrive_ops::{
    DeclaredSource, GapFilter, PartitionQuery,
    views::{AttemptView, GapView, PartitionView},
};
use redrive_store::{AttemptRecord, PartitionFilter, PartitionRecord};
use serde::Deserialize;

use super::page::{ListPage, PageBuilder, named};
use crate::{
    app::AppState,
    extract::{PathParams, QueryParams},
    problem::ProblemDetails,
};

/// Every given field must match exactly.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub(crate) struct PartitionsQuery {
    source: Option<String>,
    customer_id: Option<String>,
    query_name: Option<String>,
    /// First day, as YYYY-MM-DD.
    since: Option<String>,
    /// Last day, inclusive.
    until: Option<String>,
    /// `pending`, `success` or `failed`.
    status: Option<String>,
    /// Only failed partitions that are terminal.
    terminal: Option<bool>,
    /// Rows of the page, 1 to 10000; default 100.
    limit: Option<u32>,
    /// The `next` of the previous page: SOURCE/CUSTOMER/QUERY/DATE.
    after: Option<String>,
}

pub(super) fn day(field: &str, text: Option<&str>) -> Result<Option<LogicalDate>, ProblemDetails> {
    let read = |text: &str| {
        text.parse().map_err(|_| {
            ProblemDetails::bad_request(format!("{field}: {text:?} is not a day"))
                .allowed("YYYY-MM-DD")
        })
    };
    text.map(read).transpose()
}

pub(super) fn key(text: &str) -> Result<PartitionKey, ProblemDetails> {
    text.parse().map_err(|error: redrive_core::InvalidUnit| {
        ProblemDetails::bad_request(error.to_string()).allowed("SOURCE/CUSTOMER/QUERY/DATE")
    })
}

/// Lists partitions by key.
#[cfg_attr(test, utoipa::path(get, path = "/v1/partitions", tag = "partitions", params(PartitionsQuery),
    responses((status = 200, body = ListPage<PartitionView>), (status = 400, body = ProblemDetails))))]
pub(crate) async fn list(
    app: AppState,
    QueryParams(query): QueryParams<PartitionsQuery>,
) -> Result<Answer<ListPage<PartitionView>>, ProblemDetails> {
    let names = PartitionStatus::ALL.map(PartitionStatus::name);
    let status = named("status", query.status.as_deref(), PartitionStatus::from_name, &names)?;
    let (limit, after) = (query.limit, KeyPosition::read(query.after.as_deref())?);
    let mut query = PartitionQuery {
        filter: PartitionFilter {
            source: query.source,
            customer_id: query.customer_id,
            query_name: query.query_name,
            since: day("since", query.since.as_deref())?,
            until: day("until", query.until.as_deref())?,
            status,
        },
        terminal: query.terminal.unwrap_or(false),
        after: None,
        limit: 0,
    };
    let mut page = PageBuilder::new(limit, after)?;
    while let Some((KeyPosition(after), rows)) = page.next_read() {
        (query.after, query.limit) = (after, rows);
        let found = app.ops.partitions_page(&query).await?;
        let has_more = found.len() >= rows as usize;
        let position = |found: &PartitionRecord| KeyPosition(Some(found.key.clone()));
        page.add(found, has_more, position, |found| app.ops.show_partition(found));
    }
    Ok(page.answer())
}

/// The key after which a page starts.
#[derive(Clone)]
pub(super) struct KeyPosition(pub(super) Option<PartitionKey>);

impl KeyPosition {
    pub(super) fn read(text: Option<&str>) -> Result<Self, ProblemDetails> {
        text.map(key).transpose().map(Self)
    }
}

impl fmt::Display for KeyPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|key| key.fmt(f))
    }
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
    let after = AttemptNumber(query.after.unwrap_or(0));
    let mut page = PageBuilder::new(query.limit, after)?;
    while let Some((after, rows)) = page.next_read() {
        let attempts = app.ops.partition_attempts(&found, after, rows).await?;
        let has_more = attempts.len() >= rows as usize;
        let view = |attempt: AttemptRecord| AttemptView::from(&attempt);
        page.add(attempts, has_more, |attempt| attempt.attempt, view);
    }
    Ok(page.answer())
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
