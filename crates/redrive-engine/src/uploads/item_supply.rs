//! Supplies the lanes with pending items and their opened content.
//!
//! Items are read in pages and opened in batches, while the items before them are sent, so that lanes wait
//! neither for the store nor for the disk, nor for each other.

use std::{
    collections::VecDeque,
    iter::Peekable,
    sync::{Arc, Mutex, PoisonError},
    vec,
};

use redrive_core::ItemId;
use redrive_store::{ItemGroup, ItemRecord, Result, Store};
use tokio::task::JoinHandle;

use crate::uploads::{Chunks, Content, ContentError, UploadError};

const PAGE: u32 = 1_000;

const OPENED_TOGETHER: usize = 64;

/// An item and its content.
pub(super) type Opened = (ItemRecord, Result<Chunks, ContentError>);

pub(super) struct ItemSupply {
    ready: Mutex<VecDeque<Opened>>,
    next_batch: tokio::sync::Mutex<Option<JoinHandle<Result<OpenedBatch, UploadError>>>>,
}

struct OpenedBatch {
    opened: Vec<Opened>,
    rest: Option<UnopenedItems>,
}

impl ItemSupply {
    pub(super) fn start(
        store: Arc<dyn Store>,
        content: Arc<dyn Content>,
        group: ItemGroup,
    ) -> Self {
        let next = read_page(&store, &group, ItemId(0));
        let page = Vec::new().into_iter().peekable();
        let rest = UnopenedItems { store, content, group, page, next };
        Self { ready: Mutex::default(), next_batch: Some(tokio::spawn(rest.open())).into() }
    }

    pub(super) async fn next(&self) -> Result<Option<Opened>, UploadError> {
        loop {
            if let Some(opened) = self.take() {
                return Ok(Some(opened));
            }
            let mut next_batch = self.next_batch.lock().await;
            // Another lane may have waited for the same batch.
            if let Some(opened) = self.take() {
                return Ok(Some(opened));
            }
            let Some(opening) = next_batch.as_mut() else { return Ok(None) };
            let part = opening.await;
            *next_batch = None;
            let OpenedBatch { opened, rest } =
                part.map_err(|error| UploadError::Other(error.into()))??;
            *next_batch = rest.map(|rest| tokio::spawn(rest.open()));
            self.ready.lock().unwrap_or_else(PoisonError::into_inner).extend(opened);
        }
    }

    fn take(&self) -> Option<Opened> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// Stops the read-ahead.
impl Drop for ItemSupply {
    fn drop(&mut self) {
        if let Some(next_batch) = self.next_batch.get_mut().take() {
            next_batch.abort();
        }
    }
}

struct UnopenedItems {
    store: Arc<dyn Store>,
    content: Arc<dyn Content>,
    group: ItemGroup,
    page: Peekable<vec::IntoIter<ItemRecord>>,
    /// The next page, which is being read.
    next: JoinHandle<Result<Vec<ItemRecord>>>,
}

impl UnopenedItems {
    /// Opens the next batch.
    async fn open(mut self) -> Result<OpenedBatch, UploadError> {
        if self.page.peek().is_none() {
            let page =
                (&mut self.next).await.map_err(|error| UploadError::Other(error.into()))??;
            let Some(last) = page.last() else {
                return Ok(OpenedBatch { opened: Vec::new(), rest: None });
            };
            self.next = read_page(&self.store, &self.group, last.id);
            self.page = page.into_iter().peekable();
        }
        let items: Vec<ItemRecord> = self.page.by_ref().take(OPENED_TOGETHER).collect();
        let urls = items.iter().map(|item| item.content_url.clone()).collect();
        let contents = self.content.open(urls).await;
        Ok(OpenedBatch { opened: items.into_iter().zip(contents).collect(), rest: Some(self) })
    }
}

fn read_page(
    store: &Arc<dyn Store>,
    group: &ItemGroup,
    after: ItemId,
) -> JoinHandle<Result<Vec<ItemRecord>>> {
    let (store, group) = (store.clone(), group.clone());
    tokio::spawn(async move { store.pending_items(&group, after, PAGE).await })
}
