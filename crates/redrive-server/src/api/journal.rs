//! `/v1/journal`.

use axum::Json as Answer;
use redrive_ops::views::JournalView;
use redrive_store::{JournalFilter, PageLimit};
use serde::Deserialize;

use super::page::{ListPage, PageBuilder};
use crate::{app::AppState, extract::QueryParams, problem::ProblemDetails};

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub(crate) struct JournalQuery {
    /// Such as `run:17`.
    unit: Option<String>,
    /// Such as `partition.retry`.
    action: Option<String>,
    /// Rows of the page, 1 to 10000; default 100.
    limit: Option<u32>,
    /// The `next` of the previous page.
    after: Option<i64>,
}

/// Lists journal entries, oldest first.
#[cfg_attr(test, utoipa::path(get, path = "/v1/journal", tag = "journal", params(JournalQuery),
    responses((status = 200, body = ListPage<JournalView>), (status = 400, body = ProblemDetails))))]
pub(crate) async fn list(
    app: AppState,
    QueryParams(query): QueryParams<JournalQuery>,
) -> Result<Answer<ListPage<JournalView>>, ProblemDetails> {
    let filter = JournalFilter { unit: query.unit, action: query.action };
    let mut page = PageBuilder::new(query.limit, query.after)?;
    while let Some((after, rows)) = page.next_read() {
        let found = app.ops.store().journal_page(&filter, after.unwrap_or(0), rows).await?;
        let has_more = PageLimit::from(rows).is_reached(&found);
        page.add(found, has_more, |row| row.id, JournalView::from);
    }
    Ok(Answer(page.page()))
}
