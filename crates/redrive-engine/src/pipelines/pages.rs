//! Reads samples page by page, with bounded memory.

use std::sync::Arc;

use redrive_core::SampleId;
use redrive_store::{Result, SampleFilter, SampleRecord, Store};

use crate::pipelines::page_size::PageSize;

/// Matching samples, ordered by id. Pages are small if samples are large.
pub struct SamplePages {
    store: Arc<dyn Store>,
    filter: SampleFilter,
    after: SampleId,
    left: u64,
    size: PageSize,
    is_over: bool,
}

impl SamplePages {
    pub fn new(store: Arc<dyn Store>, filter: SampleFilter) -> Self {
        let (after, left) = (SampleId(0), u64::MAX);
        Self { store, filter, after, left, size: PageSize::first(), is_over: false }
    }

    /// Only samples with greater ids.
    pub fn after(self, after: SampleId) -> Self {
        Self { after, ..self }
    }

    pub fn with_limit(self, left: u64) -> Self {
        Self { left, ..self }
    }

    /// The next page; empty when there are no more.
    pub async fn next(&mut self) -> Result<Vec<SampleRecord>> {
        let size = u32::try_from(self.left).unwrap_or(u32::MAX).min(self.size.rows());
        if self.is_over || size == 0 {
            return Ok(Vec::new());
        }
        let page = self.store.samples_page(&self.filter, self.after, size).await?;
        self.is_over = page.len() < size as usize;
        self.left = self.left.saturating_sub(page.len() as u64);
        self.after = page.last().map_or(self.after, |last| last.id);
        let bytes: usize = page.iter().filter_map(|sample| Some(sample.data.as_ref()?.len())).sum();
        self.size.adjust(bytes);
        Ok(page)
    }
}
