//! Reads samples page by page, with bounded memory.

use std::sync::Arc;

use redrive_core::SampleId;
use redrive_store::{PageLimit, Result, SampleRecord, Selection, Store};

/// Rows of a page. The store ends pages of large samples earlier.
const PAGE_ROWS: u32 = 200;

/// Matching samples, ordered by id.
pub struct SamplePages {
    store: Arc<dyn Store>,
    filter: Selection,
    after: SampleId,
    left: u64,
    with_data: bool,
    is_over: bool,
}

impl SamplePages {
    pub fn new(store: Arc<dyn Store>, filter: Selection) -> Self {
        let (after, left) = (SampleId(0), u64::MAX);
        Self { store, filter, after, left, with_data: true, is_over: false }
    }

    /// Only samples with greater ids.
    pub fn after(self, after: SampleId) -> Self {
        Self { after, ..self }
    }

    /// Samples without their data, which the store then does not read.
    pub fn without_data(self) -> Self {
        Self { with_data: false, ..self }
    }

    pub fn with_limit(self, left: u64) -> Self {
        Self { left, ..self }
    }

    /// The next page; empty when there are no more.
    pub async fn next(&mut self) -> Result<Vec<SampleRecord>> {
        let rows = u32::try_from(self.left).unwrap_or(u32::MAX).min(PAGE_ROWS);
        if self.is_over || rows == 0 {
            return Ok(Vec::new());
        }
        let limit = PageLimit { with_data: self.with_data, ..rows.into() };
        let page = self.store.samples_page(&self.filter, self.after, limit).await?;
        self.is_over = !limit.is_reached(&page);
        self.left = self.left.saturating_sub(page.len() as u64);
        self.after = page.last().map_or(self.after, |last| last.id);
        Ok(page)
    }
}
