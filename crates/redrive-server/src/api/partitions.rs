//! Partitions: how they stand.

use axum::Json as Answer;
use redrive_core::{AttemptNumber, LogicalDate, PartitionKey, PartitionStatus};
use redrive_ops::{
    DeclaredSource, GapFilter, PartitionQuery,
    views::{AttemptView, GapView, PartitionView},
};
use redrive_store::PartitionFilter;
use serde::Deserialize;

use super::page::{Page, limit, named};
use crate::{
    app::Shared,
    extract::{Path, Query},
    problem::Problem,
};

/// Which partitions. Everything given must match exactly.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub(crate) struct PartitionsQuery {
    /// Of this source alone.
    source: Option<String>,
    /// Of this customer alone.
    customer_id: Option<String>,
    /// Of this query alone.
    query_name: Option<String>,
    /// Not before this day.
    since: Option<String>,
    /// Not after this day, which is included.
    until: Option<String>,
    /// With this status alone.
    status: Option<String>,
    /// Those alone that are failed and terminal.
    terminal: Option<bool>,
    /// At most so many, up to 10000; 100 unless given.
    limit: Option<u32>,
    /// Those alone that come after this one, as SOURCE/CUSTOMER/QUERY/DATE.
    after: Option<String>,
}

pub(super) fn day(field: &str, text: Option<&str>) -> Result<Option<LogicalDate>, Problem> {
    let read = |text: &str| {
        text.parse().map_err(|_| {
            Problem::bad_request(format!("{field}: {text:?} is no day")).allowed("YYYY-MM-DD")
        })
    };
    text.map(read).transpose()
}

pub(super) fn key(text: &str) -> Result<PartitionKey, Problem> {
    text.parse().map_err(|error: redrive_core::InvalidUnit| {
        Problem::bad_request(error.to_string()).allowed("SOURCE/CUSTOMER/QUERY/DATE")
    })
}

/// Partitions by key.
#[cfg_attr(test, utoipa::path(get, path = "/v1/partitions", tag = "partitions", params(PartitionsQuery),
    responses((status = 200, body = Page<PartitionView>), (status = 400, body = Problem))))]
pub(crate) async fn list(
    app: Shared,
    Query(asked): Query<PartitionsQuery>,
) -> Result<Answer<Page<PartitionView>>, Problem> {
    let limit = limit(asked.limit)?;
    let names = PartitionStatus::ALL.map(PartitionStatus::name);
    let status = named("status", asked.status.as_deref(), PartitionStatus::from_name, &names)?;
    let query = PartitionQuery {
        filter: PartitionFilter {
            source: asked.source,
            customer_id: asked.customer_id,
            query_name: asked.query_name,
            since: day("since", asked.since.as_deref())?,
            until: day("until", asked.until.as_deref())?,
            status,
        },
        terminal: asked.terminal.unwrap_or(false),
        after: asked.after.as_deref().map(key).transpose()?,
        limit,
    };
    let page = app.ops.partitions_page(&query).await?;
    let last = page.last().map(|partition| partition.key.to_string());
    let shown = page.into_iter().map(|found| app.ops.show_partition(found));
    Ok(Answer(Page::new(shown.collect(), limit, last)))
}

/// The parts of a key, as a path has them.
pub(crate) type KeyParts = (String, String, String, String);

/// The key of a path.
pub(crate) fn key_of(parts: &KeyParts) -> Result<PartitionKey, Problem> {
    let (source, customer, query, date) = parts;
    let date = day("logical_date", Some(date))?.ok_or_else(|| Problem::bad_request("no day"))?;
    PartitionKey::new(source, customer, query, date)
        .map_err(|error| Problem::bad_request(error.to_string()))
}

/// One partition. One without an entry is said to have none.
#[cfg_attr(test, utoipa::path(get, path = "/v1/partitions/{source}/{customer_id}/{query_name}/{logical_date}",
    tag = "partitions",
    params(("source" = String, Path), ("customer_id" = String, Path), ("query_name" = String, Path),
           ("logical_date" = String, Path)),
    responses((status = 200, body = PartitionView), (status = 400, body = Problem))))]
pub(crate) async fn show(
    app: Shared,
    Path(parts): Path<KeyParts>,
) -> Result<Answer<PartitionView>, Problem> {
    let key = key_of(&parts)?;
    let found = app.ops.partition(&key).await?;
    let absent = || PartitionView::absent(&key);
    Ok(Answer(found.map_or_else(absent, |found| app.ops.show_partition(found))))
}

/// Which attempts.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub(crate) struct HistoryQuery {
    /// At most so many, up to 10000; 100 unless given.
    limit: Option<u32>,
    /// Those alone that come after this number.
    after: Option<u32>,
}

/// The attempts at a partition, by number.
#[cfg_attr(test, utoipa::path(get, path = "/v1/partitions/{source}/{customer_id}/{query_name}/{logical_date}/history",
    tag = "partitions",
    params(("source" = String, Path), ("customer_id" = String, Path), ("query_name" = String, Path),
           ("logical_date" = String, Path), HistoryQuery),
    responses((status = 200, body = Page<AttemptView>), (status = 400, body = Problem),
              (status = 404, body = Problem))))]
pub(crate) async fn history(
    app: Shared,
    Path(parts): Path<KeyParts>,
    Query(asked): Query<HistoryQuery>,
) -> Result<Answer<Page<AttemptView>>, Problem> {
    let (key, limit) = (key_of(&parts)?, limit(asked.limit)?);
    let found = app.ops.partition(&key).await?;
    let found = found.ok_or_else(|| Problem::not_found(format!("partition:{key} has no entry")))?;
    let after = AttemptNumber(asked.after.unwrap_or(0));
    let attempts = app.ops.partition_attempts(&found, after, limit).await?;
    let last = attempts.last().map(|attempt| attempt.attempt.to_string());
    Ok(Answer(Page::new(attempts.iter().map(AttemptView::from).collect(), limit, last)))
}

/// Of which days gaps are looked for.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub(crate) struct GapsQuery {
    /// Of this source alone.
    source: Option<String>,
    /// Of this customer alone.
    customer_id: Option<String>,
    /// Of this query alone.
    query_name: Option<String>,
    /// Not before this day.
    since: Option<String>,
    /// Not after this day, which is included.
    until: Option<String>,
}

/// The days that should be good by now and are not.
#[cfg_attr(test, utoipa::path(get, path = "/v1/gaps", tag = "partitions", params(GapsQuery),
    responses((status = 200, body = Vec<GapView>), (status = 400, body = Problem),
              (status = 404, body = Problem))))]
pub(crate) async fn gaps(
    app: Shared,
    Query(asked): Query<GapsQuery>,
) -> Result<Answer<Vec<GapView>>, Problem> {
    let filter = GapFilter {
        customer_id: asked.customer_id,
        query_name: asked.query_name,
        since: day("since", asked.since.as_deref())?,
        until: day("until", asked.until.as_deref())?,
    };
    let declared = app.ops.declared().map(|declared| declared.sources.as_slice());
    let sources: Vec<&DeclaredSource> = match &asked.source {
        None => declared.unwrap_or_default().iter().collect(),
        Some(name) => {
            let found = declared.and_then(|all| all.iter().find(|source| source.name == *name));
            let missing = || Problem::not_found(format!("no source {name:?} is declared"));
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
