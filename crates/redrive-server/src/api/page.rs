//! Pages of lists, and the parameters that lists share.

use redrive_store::MAX_PAGE;
use serde::Serialize;

use crate::problem::ProblemDetails;

const DEFAULT_LIMIT: u32 = 100;

/// A page of a list.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct ListPage<T> {
    items: Vec<T>,
    /// The `after` of the next page; null on the last page.
    next: Option<String>,
}

impl<T> ListPage<T> {
    /// `last` is the position of the last row.
    pub(crate) fn new(items: Vec<T>, limit: u32, last: Option<String>) -> Self {
        let is_full = items.len() >= limit as usize;
        Self { items, next: last.filter(|_| is_full) }
    }
}

pub(crate) fn limit(requested: Option<u32>) -> Result<u32, ProblemDetails> {
    match requested.unwrap_or(DEFAULT_LIMIT) {
        limit @ 1..=MAX_PAGE => Ok(limit),
        limit => Err(ProblemDetails::bad_request(format!("limit: {limit} is out of range"))
            .allowed(format!("1 to {MAX_PAGE}"))),
    }
}

/// Parses an optional name of an enumeration.
pub(crate) fn named<T>(
    field: &str,
    text: Option<&str>,
    from_name: impl Fn(&str) -> Option<T>,
    names: &[&str],
) -> Result<Option<T>, ProblemDetails> {
    let Some(text) = text else { return Ok(None) };
    from_name(text).map(Some).ok_or_else(|| {
        ProblemDetails::bad_request(format!("{field}: unknown value {text:?}"))
            .allowed(names.join(", "))
    })
}
