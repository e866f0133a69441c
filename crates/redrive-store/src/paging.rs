//! Pages that are bounded in bytes.
//!
//! Payloads, samples and the journal entries of their edits have up to megabytes, so a number of rows alone does not bound the memory of a page.

use crate::{JournalRecord, RunRecord, SampleRecord};

/// A page of runs, samples or journal entries ends with the row that reaches this size, so it has at least one row.
pub const MAX_PAGE_BYTES: usize = 4 * 1024 * 1024;

/// The order of a page, by id or key. Ids grow with time, so a descending page has the newest units first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PageOrder {
    #[default]
    Ascending,
    Descending,
}

impl PageOrder {
    pub fn reversed(self) -> Self {
        match self {
            Self::Ascending => Self::Descending,
            Self::Descending => Self::Ascending,
        }
    }

    /// The position before the first id.
    pub fn start(self) -> i64 {
        match self {
            Self::Ascending => 0,
            Self::Descending => i64::MAX,
        }
    }
}

/// What a page holds, and in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLimit {
    pub rows: u32,
    /// Whether rows have their data. Otherwise the payload of a run and the data of a sample are `null`, and runs have
    /// no result; the store does not read them.
    pub with_data: bool,
    pub order: PageOrder,
}

impl From<u32> for PageLimit {
    fn from(rows: u32) -> Self {
        Self { rows, with_data: true, order: PageOrder::Ascending }
    }
}

impl PageLimit {
    pub fn without_data(rows: u32) -> Self {
        Self { with_data: false, ..Self::from(rows) }
    }

    pub fn ordered(self, order: PageOrder) -> Self {
        Self { order, ..self }
    }

    pub fn newest_first(self) -> Self {
        self.ordered(PageOrder::Descending)
    }

    /// Whether more rows may follow the page.
    pub fn is_reached(self, page: &[impl PageRow]) -> bool {
        page.len() >= self.rows as usize
            || page.iter().map(PageRow::data_bytes).sum::<usize>() >= MAX_PAGE_BYTES
    }
}

/// A row whose size counts for its page.
pub trait PageRow {
    fn data_bytes(&self) -> usize;
}

impl PageRow for RunRecord {
    fn data_bytes(&self) -> usize {
        let optional = [&self.result, &self.error_message];
        self.payload.len() + optional.into_iter().flatten().map(String::len).sum::<usize>()
    }
}

impl PageRow for SampleRecord {
    fn data_bytes(&self) -> usize {
        let optional = [&self.data, &self.error_message];
        optional.into_iter().flatten().map(String::len).sum()
    }
}

impl PageRow for JournalRecord {
    fn data_bytes(&self) -> usize {
        self.entry.details.len() + self.entry.filter.as_ref().map_or(0, String::len)
    }
}
