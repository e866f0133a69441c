//! Pages of rows that may be small or large.

/// How many rows are in the first page, and in any.
const FIRST_PAGE: u32 = 16;
const MAX_PAGE: u32 = 200;

/// How much a page should hold. A page of small rows may be followed by one of large ones, so this is
/// what the size of pages is steered by, and no limit.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// How many rows the next page has: few where rows are large.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageSize(u32);

impl PageSize {
    /// Of the first page.
    pub(crate) fn first() -> Self {
        Self(FIRST_PAGE)
    }

    /// In rows.
    pub(crate) fn rows(self) -> u32 {
        self.0
    }

    /// After a page that held so many bytes.
    pub(crate) fn adjust(&mut self, bytes: usize) {
        self.0 = match bytes {
            0..PAGE_BYTES => (self.0 * 2).min(MAX_PAGE),
            _ => (self.0 / 4).max(1),
        };
    }
}
