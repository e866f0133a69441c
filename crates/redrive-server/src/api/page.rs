//! Pages of lists, bounded in rows and bytes, and the parameters that lists share.

use std::io;

use redrive_store::MAX_PAGE;
use serde::Serialize;

use crate::problem::ProblemDetails;

pub(super) const DEFAULT_LIMIT: u32 = 100;

/// A page ends with the row that reaches this size, so that no list fills the memory.
const MAX_LIST_BYTES: usize = 4 * 1024 * 1024;

/// Rows of one read from the store.
const READ_ROWS: u32 = 500;

/// A page of a list. Its size is bounded, so it may have fewer rows than `limit` and still not be the last.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct ListPage<T> {
    items: Vec<T>,
    /// The `after` of the next page; null on the last page.
    next: Option<String>,
}

/// Collects a page of `limit` rows or [`MAX_LIST_BYTES`] from reads of a few rows.
pub(crate) struct PageBuilder<P, T> {
    limit: usize,
    /// The position of the last row.
    after: Option<P>,
    items: Vec<T>,
    bytes: usize,
    /// Whether more rows may follow in the store.
    has_more: bool,
}

impl<P: Clone + ToString, T: Serialize> PageBuilder<P, T> {
    pub(crate) fn new(limit: Option<u32>, after: Option<P>) -> Result<Self, ProblemDetails> {
        let limit = self::limit(limit)? as usize;
        Ok(Self { limit, after, items: Vec::new(), bytes: 0, has_more: true })
    }

    /// Where to read how many rows next; `None` when the page is complete.
    pub(crate) fn next_read(&self) -> Option<(Option<P>, u32)> {
        let left = u32::try_from(self.limit - self.items.len()).unwrap_or(u32::MAX);
        let goes_on = self.has_more && left > 0 && self.bytes < MAX_LIST_BYTES;
        goes_on.then(|| (self.after.clone(), left.min(READ_ROWS)))
    }

    /// Adds rows as far as there is room.
    pub(crate) fn add<R>(
        &mut self,
        rows: Vec<R>,
        has_more: bool,
        position: impl Fn(&R) -> P,
        view: impl Fn(R) -> T,
    ) {
        self.has_more = has_more;
        for row in rows {
            if self.bytes >= MAX_LIST_BYTES {
                self.has_more = true;
                return;
            }
            self.after = Some(position(&row));
            let item = view(row);
            self.bytes += json_bytes(&item);
            self.items.push(item);
        }
    }

    pub(crate) fn page(self) -> ListPage<T> {
        let next = self.after.filter(|_| self.has_more).map(|after| after.to_string());
        ListPage { items: self.items, next }
    }
}

/// The length of a value as JSON.
fn json_bytes(value: &impl Serialize) -> usize {
    struct Counter(usize);
    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // A view that is no JSON fails when the response is written.
    _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

impl<T> ListPage<T> {
    /// A list without further pages.
    pub(crate) fn single(items: Vec<T>) -> Self {
        Self { items, next: None }
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
