//! Lists in pages, each with the address of the next.

use redrive_store::MAX_PAGE;
use serde::Serialize;

use crate::problem::ProblemDetails;

/// Rows of a page, unless asked otherwise.
const DEFAULT_LIMIT: u32 = 100;

/// Some of a list.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct ListPage<T> {
    /// In the order of the list.
    items: Vec<T>,
    /// What to give as `after` for those that follow; nothing after the last page.
    next: Option<String>,
}

impl<T> ListPage<T> {
    /// A page that was asked for with a limit; `last` is where its last row stands.
    pub(crate) fn new(items: Vec<T>, limit: u32, last: Option<String>) -> Self {
        let is_full = items.len() >= limit as usize;
        Self { items, next: last.filter(|_| is_full) }
    }
}

/// How many rows are asked for.
pub(crate) fn limit(asked: Option<u32>) -> Result<u32, ProblemDetails> {
    match query.unwrap_or(DEFAULT_LIMIT) {
        limit @ 1..=MAX_PAGE => Ok(limit),
        limit => {
            Err(ProblemDetails::bad_request(format!("limit: {limit} rows cannot be had at once"))
                .allowed(format!("1 to {MAX_PAGE}")))
        }
    }
}

/// The name of something with few names.
pub(crate) fn named<T>(
    field: &str,
    text: Option<&str>,
    from_name: impl Fn(&str) -> Option<T>,
    names: &[&str],
) -> Result<Option<T>, ProblemDetails> {
    let Some(text) = text else { return Ok(None) };
    from_name(text).map(Some).ok_or_else(|| {
        ProblemDetails::bad_request(format!("{field}: there is no {text:?}"))
            .allowed(names.join(", "))
    })
}
