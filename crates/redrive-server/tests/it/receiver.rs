//! Uploads whose receiver is part of the test.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use redrive_core::{ItemEvent, ItemId};
use redrive_engine::{
    Clock, GroupUpload, ItemOutcome, ItemReport, SystemClock, UploadError, UploadOutcome,
    UploadReport, UploadRequest, Uploader,
};
use redrive_server::Uploads;
use redrive_store::{ItemGroup, ItemMove, ItemRecord, Store, WorkerId};

/// Acknowledges every item, but for those called `slow`: with one of them it waits to be told to stop.
struct Receiver {
    store: Arc<dyn Store>,
}

#[async_trait]
impl Uploader for Receiver {
    async fn upload_pending(&self, request: &UploadRequest) -> Result<UploadReport, UploadError> {
        let (mut items, mut interrupted) = (Vec::new(), false);
        for item in self.enumerate_pending(&request.group, ItemId(0), 100).await? {
            if item.name == "slow" {
                request.stop.clone().unwrap().stopped().await;
                interrupted = true;
                continue;
            }
            let step = ItemMove::new(item.id, ItemEvent::Acknowledge, SystemClock.now());
            self.store.move_items(&[step]).await?;
            items.push(ItemReport { item: item.id, outcome: ItemOutcome::Uploaded });
        }
        let outcome = if interrupted { UploadOutcome::Partial } else { UploadOutcome::Success };
        Ok(UploadReport { interrupted, ..UploadReport::new(outcome, items) })
    }

    async fn enumerate_pending(
        &self,
        group: &ItemGroup,
        after: ItemId,
        limit: u32,
    ) -> Result<Vec<ItemRecord>, UploadError> {
        Ok(self.store.pending_items(group, after, limit).await?)
    }

    async fn confirm_ready(&self) -> Result<(), UploadError> {
        Ok(())
    }
}

/// `tiles` goes to a receiver; `sealed` cannot be sent from here.
pub(crate) fn uploads(store: &Arc<dyn Store>) -> Uploads {
    let receiver = Arc::new(Receiver { store: store.clone() });
    let (worker, lease) = (WorkerId("server-1".to_owned()), Duration::from_secs(60));
    let tiles = GroupUpload::new(receiver, store.clone(), worker, lease);
    let sealed = Err("$SEAL is not set".to_owned());
    Uploads::from([("tiles".to_owned(), Ok(tiles)), ("sealed".to_owned(), sealed)])
}
