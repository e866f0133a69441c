//! Events of a running upload.

use std::{sync::Arc, time::Duration};

use redrive_core::Failure;
use redrive_store::ItemRecord;

#[derive(Debug, Clone, Copy)]
pub enum UploadEvent<'a> {
    /// Acknowledged, and written to the store.
    Uploaded(&'a ItemRecord),
    /// Rejected, and written to the store.
    Rejected(&'a ItemRecord, &'a Failure),
    GaveUp {
        /// As it was before the give-up.
        item: &'a ItemRecord,
        attempts: u32,
        /// The last rejection.
        failure: &'a Failure,
    },
    /// The pending items will be sent again after `sleep`.
    Retrying {
        /// From 1.
        retry: u32,
        sleep: Duration,
        pending: u64,
    },
}

/// Called for every event, between sends and writes, so it must return quickly.
pub type UploadObserver = Arc<dyn Fn(UploadEvent<'_>) + Send + Sync>;

pub(super) fn no_observer() -> UploadObserver {
    Arc::new(|_| {})
}
