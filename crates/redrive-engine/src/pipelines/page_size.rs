//! Adapts the size of pages to the size of rows.

/// Rows of the first page, and of the largest.
const FIRST_PAGE: u32 = 16;
const MAX_PAGE: u32 = 200;

/// The target size of a page. This is no limit: a page of small rows may be followed by one of large rows.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// The number of rows of the next page: few if rows are large.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageSize(u32);

impl PageSize {
    pub(crate) fn first() -> Self {
        Self(FIRST_PAGE)
    }

    pub(crate) fn rows(self) -> u32 {
        self.0
    }

    /// Adapts to the size of the last page.
    pub(crate) fn adjust(&mut self, bytes: usize) {
        self.0 = match bytes {
            0..PAGE_BYTES => (self.0 * 2).min(MAX_PAGE),
            _ => (self.0 / 4).max(1),
        };
    }
}
