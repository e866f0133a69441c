//! Partitions that can be read, and their rows.

use std::io;

use axum::{
    Json as Answer,
    body::Body,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use futures_util::{StreamExt, TryStreamExt, stream};
use redrive_engine::{ConsumeError, RawError, RawReader};
use redrive_ops::views::ReadableView;
use redrive_store::PartitionFilter;
use serde::Deserialize;

use super::{
    page::{ListPage, limit},
    partitions::{KeyParts, day, key, key_of},
};
use crate::{
    app::AppState,
    extract::{PathParams, QueryParams},
    problem::ProblemDetails,
};

/// Which partitions. Everything given must match exactly.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadableQuery {
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
    /// At most so many, up to 10000; 100 unless given.
    limit: Option<u32>,
    /// Those alone that come after this one, as SOURCE/CUSTOMER/QUERY/DATE.
    after: Option<String>,
}

/// Partitions that are good and so can be read, by key.
#[cfg_attr(test, utoipa::path(get, path = "/v1/readable", tag = "partitions", params(ReadableQuery),
    responses((status = 200, body = ListPage<ReadableView>), (status = 400, body = ProblemDetails))))]
pub(crate) async fn readable(
    app: AppState,
    QueryParams(query): QueryParams<ReadableQuery>,
) -> Result<Answer<ListPage<ReadableView>>, ProblemDetails> {
    let limit = limit(query.limit)?;
    let filter = PartitionFilter {
        source: query.source,
        customer_id: query.customer_id,
        query_name: query.query_name,
        since: day("since", query.since.as_deref())?,
        until: day("until", query.until.as_deref())?,
        status: None,
    };
    let after = query.after.as_deref().map(key).transpose()?;
    let consumer = app.ops.consumer();
    let page = consumer.page(&filter, after.as_ref(), limit).await?;
    let last = page.last().map(|found| found.key.to_string());
    let shown = page.iter().map(|found| ReadableView::new(found, &consumer));
    Ok(Answer(ListPage::new(shown.collect(), limit, last)))
}

/// The rows of a partition that is good, as they were extracted, one JSON object a line. What was read is compared with
/// its seal at its end: if they differ, the answer breaks off.
#[cfg_attr(test, utoipa::path(get, path = "/v1/partitions/{source}/{customer_id}/{query_name}/{logical_date}/rows",
    tag = "partitions",
    params(("source" = String, Path), ("customer_id" = String, Path), ("query_name" = String, Path),
           ("logical_date" = String, Path)),
    responses((status = 200, content_type = "application/x-ndjson", body = String),
              (status = 400, body = ProblemDetails),
              (status = 409, description = "it is not good, or not as it was sealed", body = ProblemDetails),
              (status = 503, description = "its rows cannot be had at the moment", body = ProblemDetails))))]
pub(crate) async fn rows(
    app: AppState,
    PathParams(parts): PathParams<KeyParts>,
) -> Result<Response, ProblemDetails> {
    let key = key_of(&parts)?;
    let mut reader = app.ops.consumer().read(&key).await?;
    // Once rows were sent it is too late to say what is wrong. Of few rows it is known before: their end is compared
    // with the seal.
    let mut first = Vec::new();
    while first.len() < 2
        && let Some(bytes) =
            reader.next().await.map_err(|source| ConsumeError::Raw { key: key.clone(), source })?
    {
        first.push(bytes);
    }
    let rest = stream::try_unfold(reader, |mut reader: RawReader| async move {
        Ok(reader.next().await?.map(|bytes| (bytes, reader)))
    });
    let rest = rest.map_err(move |error: RawError| {
        tracing::warn!(partition = %key, error = &error as &dyn std::error::Error, "rows broke off");
        io::Error::other(error)
    });
    let rows = stream::iter(first.into_iter().map(Ok)).chain(rest);
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(rows)).into_response())
}

/// Where rows are kept is nothing that a stranger should know; the log has it.
impl From<ConsumeError> for ProblemDetails {
    fn from(error: ConsumeError) -> Self {
        let (key, source) = match error {
            ConsumeError::Store(error) => return error.into(),
            ConsumeError::Raw { key, source } => (key, source),
            other => {
                return Self::new(StatusCode::CONFLICT, other.to_string())
                    .allowed("partitions that /v1/readable lists");
            }
        };
        tracing::warn!(
            partition = %key,
            error = &source as &dyn std::error::Error,
            "rows cannot be read"
        );
        match source {
            RawError::Damaged { .. } => {
                let what = format!("the rows of partition:{key} are not as they were sealed");
                Self::new(StatusCode::CONFLICT, what)
            }
            _ => {
                let what = format!("the rows of partition:{key} cannot be had; the log has why");
                Self::new(StatusCode::SERVICE_UNAVAILABLE, what).retry_after(1)
            }
        }
    }
}
