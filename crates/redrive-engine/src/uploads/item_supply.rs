//! What is pending, with the beginning of its content, for whoever sends the next item.
//!
//! Items are read by pages and opened in parts, each while what came before is sent: lanes wait neither
//! for the store nor for the disk, and not for each other.

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

/// Items that are read from the store at a time.
const PAGE: u32 = 1_000;

/// Contents that are opened together.
const OPENED_TOGETHER: usize = 64;

/// An item, and the beginning of its content.
pub(super) type Opened = (ItemRecord, Result<Chunks, ContentError>);

/// Hands out items.
pub(super) struct ItemSupply {
    ready: Mutex<VecDeque<Opened>>,
    coming: tokio::sync::Mutex<Option<JoinHandle<Result<OpenedBatch, UploadError>>>>,
}

/// Items that were opened, and where the others come from.
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
        Self { ready: Mutex::default(), coming: Some(tokio::spawn(rest.open())).into() }
    }

    /// The next item, if there is one.
    pub(super) async fn next(&self) -> Result<Option<Opened>, UploadError> {
        loop {
            if let Some(opened) = self.take() {
                return Ok(Some(opened));
            }
            let mut coming = self.coming.lock().await;
            // Someone else may have waited for it first.
            if let Some(opened) = self.take() {
                return Ok(Some(opened));
            }
            let Some(opening) = coming.as_mut() else { return Ok(None) };
            let part = opening.await;
            *coming = None;
            let OpenedBatch { opened, rest } =
                part.map_err(|error| UploadError::Other(error.into()))??;
            *coming = rest.map(|rest| tokio::spawn(rest.open()));
            self.ready.lock().unwrap_or_else(PoisonError::into_inner).extend(opened);
        }
    }

    fn take(&self) -> Option<Opened> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// Nobody wants what is still coming.
impl Drop for ItemSupply {
    fn drop(&mut self) {
        if let Some(coming) = self.coming.get_mut().take() {
            coming.abort();
        }
    }
}

/// What is not opened yet.
struct UnopenedItems {
    store: Arc<dyn Store>,
    content: Arc<dyn Content>,
    group: ItemGroup,
    page: Peekable<vec::IntoIter<ItemRecord>>,
    /// The page after it, which is being read.
    next: JoinHandle<Result<Vec<ItemRecord>>>,
}

impl UnopenedItems {
    /// Opens the next part.
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

/// Reads the items after one.
fn read_page(
    store: &Arc<dyn Store>,
    group: &ItemGroup,
    after: ItemId,
) -> JoinHandle<Result<Vec<ItemRecord>>> {
    let (store, group) = (store.clone(), group.clone());
    tokio::spawn(async move { store.pending_items(&group, after, PAGE).await })
}
