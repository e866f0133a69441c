//! `/v1/readable`, and the rows of partitions.

use std::io;

use axum::{
    Json as Answer,
    body::Body,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use futures_util::{StreamExt, TryStreamExt, stream};
use redrive_engine::{ConsumeError, RawError, RawReader, ReadablePartition, Unreadable};
use redrive_ops::views::{PartitionView, ReadableView};

use super::{
    page::{ListPage, PageBuilder},
    partitions::{KeyParts, key_of},
};
use crate::{
    app::AppState,
    extract::{PathParams, QueryParams},
    params::{OF_LISTS, Pairs, Params},
    problem::ProblemDetails,
    problem_kind::ProblemKind,
};

/// Every given field must match exactly.
/// Lists readable partitions by key.
pub(crate) async fn readable(
    app: AppState,
    QueryParams(pairs): QueryParams<Pairs>,
) -> Result<Answer<ListPage<ReadableView>>, ProblemDetails> {
    let params = Params::<PartitionView>::read(&pairs, OF_LISTS)?;
    if params.selection.state.is_some() {
        return Err(ProblemDetails::bad_request("state: only good partitions are readable"));
    }
    let consumer = app.ops.consumer();
    let mut page = PageBuilder::new(params.limit, params.after)?;
    while let Some((after, rows)) = page.next_read() {
        let found = consumer.page(&params.selection, after.as_ref(), rows).await?;
        let has_more = found.len() >= rows as usize;
        let position = |found: &ReadablePartition| found.key.clone();
        page.add(found, has_more, position, |found| ReadableView::new(&found, &consumer));
    }
    Ok(Answer(page.page()))
}

/// Returns the extracted rows of a readable partition, one JSON object per line. The server verifies the seal at the end;
/// when the rows differ from the seal, the response is cut off.
#[cfg_attr(test, utoipa::path(get, path = "/v1/partitions/{source}/{customer_id}/{query_name}/{logical_date}/rows",
    tag = "partitions",
    params(("source" = String, Path), ("customer_id" = String, Path), ("query_name" = String, Path),
           ("logical_date" = String, Path)),
    responses((status = 200, content_type = "application/x-ndjson", body = String),
              (status = 400, body = ProblemDetails),
              (status = 409, description = "the partition is not good yet, or its rows differ from the seal", body = ProblemDetails),
              (status = 410, description = "the partition is terminal", body = ProblemDetails),
              (status = 503, description = "the rows are unavailable at the moment", body = ProblemDetails))))]
pub(crate) async fn rows(
    app: AppState,
    PathParams(parts): PathParams<KeyParts>,
) -> Result<Response, ProblemDetails> {
    let key = key_of(&parts)?;
    let mut reader = app.ops.consumer().read(&key).await?;
    // After the first bytes the status cannot change. Reading ahead verifies the seal of a small partition before the
    // response starts.
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
        tracing::warn!(partition = %key, error = &error as &dyn std::error::Error, "the rows of a response were cut off");
        io::Error::other(error)
    });
    let rows = stream::iter(first.into_iter().map(Ok)).chain(rest);
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(rows)).into_response())
}

/// The response omits storage paths, which may be confidential; the log has them.
impl From<ConsumeError> for ProblemDetails {
    fn from(error: ConsumeError) -> Self {
        let (key, source) = match error {
            ConsumeError::Store(error) => return error.into(),
            ConsumeError::Raw { key, source } => (key, source),
            ConsumeError::NotReadable { why, .. } => {
                let status = match why {
                    Unreadable::Gone => StatusCode::GONE,
                    _ => StatusCode::CONFLICT,
                };
                return Self::new(status, error.to_string())
                    .kind(ProblemKind::NotReadable)
                    .reason(why.name())
                    .allowed("partitions that /v1/readable lists");
            }
            other => return Self::new(StatusCode::CONFLICT, other.to_string()),
        };
        tracing::warn!(
            partition = %key,
            error = &source as &dyn std::error::Error,
            "cannot read the rows of a partition"
        );
        match source {
            RawError::Damaged { .. } => {
                let what = format!("the rows of partition:{key} differ from their seal");
                Self::new(StatusCode::CONFLICT, what)
            }
            _ => {
                let what =
                    format!("the rows of partition:{key} are unavailable; the log has the cause");
                Self::new(StatusCode::SERVICE_UNAVAILABLE, what).retry_after(1)
            }
        }
    }
}
