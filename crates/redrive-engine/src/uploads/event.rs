//! What can be watched while an upload goes on.

use std::{sync::Arc, time::Duration};

use redrive_core::Failure;
use redrive_store::ItemRecord;

/// Something that happened.
#[derive(Debug, Clone, Copy)]
pub enum UploadEvent<'a> {
    /// An item was acknowledged, and the store knows it.
    Uploaded(&'a ItemRecord),
    /// An item was rejected, and the store knows why.
    Rejected(&'a ItemRecord, &'a Failure),
    /// An item was rejected once too often.
    GaveUp {
        /// The item, as it was before.
        item: &'a ItemRecord,
        /// How often it was rejected.
        attempts: u32,
        /// Why it was rejected last.
        failure: &'a Failure,
    },
    /// What is left is sent again after a sleep.
    Retrying {
        /// The number of the retry, from 1.
        retry: u32,
        /// How long it sleeps.
        sleep: Duration,
        /// How many items are pending.
        pending: u64,
    },
}

/// Watches an upload. It is called in between, so it must not take long.
pub type UploadObserver = Arc<dyn Fn(UploadEvent<'_>) + Send + Sync>;

/// Nobody watches.
pub(super) fn no_observer() -> UploadObserver {
    Arc::new(|_| {})
}
