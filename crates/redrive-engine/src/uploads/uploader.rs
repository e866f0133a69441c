//! What uploads: one interface for the real one, for the one that retries, and for a program's own.

use async_trait::async_trait;
use redrive_core::{Failure, ItemId};
use redrive_store::{ItemGroup, ItemRecord};

use crate::{Stop, uploads::UploadReport};

/// What to upload.
#[derive(Debug, Clone)]
pub struct UploadRequest {
    /// The group whose pending items are sent.
    pub group: ItemGroup,
    /// Tells it to stop: nothing more is sent, and a sleep ends at once.
    pub stop: Option<Stop>,
}

impl UploadRequest {
    /// All pending items of a group.
    pub fn new(group: ItemGroup) -> Self {
        Self { group, stop: None }
    }

    /// The same, until told to stop.
    pub fn with_stop(self, stop: Stop) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// Whether it was told to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(Stop::is_stopped)
    }

    /// Waits until it is told to stop, for ever if nobody can.
    pub(crate) async fn stopped(&self) {
        match self.stop.clone() {
            Some(mut stop) => stop.stopped().await,
            None => std::future::pending().await,
        }
    }
}

/// Why an upload could not be made. Nothing was judged, and nothing is counted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UploadError {
    /// It may not start now.
    #[error("the upload is not ready: {}", .0.message())]
    NotReady(Failure),
    /// The endpoint could not be reached.
    #[error("the endpoint cannot be reached: {}", .0.message())]
    Unreachable(Failure),
    /// Where the content of items is kept could not be reached.
    #[error("the items cannot be read: {}", .0.message())]
    Unreadable(Failure),
    /// The store could not be used.
    #[error("the store cannot be used")]
    Store(#[from] redrive_store::Error),
    /// An uploader of a program's own failed.
    #[error("the upload failed")]
    Other(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Sends the pending items of a group.
///
/// Whoever implements it marks each acknowledged item as uploaded at once, and leaves a rejected one
/// pending; counting rejections is not its business.
#[async_trait]
pub trait Uploader: Send + Sync {
    /// Sends what is pending in a group, each item once.
    async fn upload_pending(&self, request: &UploadRequest) -> Result<UploadReport, UploadError>;

    /// What is pending in a group, by id, after an id, a page at a time.
    async fn enumerate_pending(
        &self,
        group: &ItemGroup,
        after: ItemId,
        limit: u32,
    ) -> Result<Vec<ItemRecord>, UploadError>;

    /// Whether an upload may start now. The error says why not.
    async fn confirm_ready(&self) -> Result<(), UploadError>;
}

#[async_trait]
impl<U: Uploader + ?Sized> Uploader for std::sync::Arc<U> {
    async fn upload_pending(&self, request: &UploadRequest) -> Result<UploadReport, UploadError> {
        (**self).upload_pending(request).await
    }

    async fn enumerate_pending(
        &self,
        group: &ItemGroup,
        after: ItemId,
        limit: u32,
    ) -> Result<Vec<ItemRecord>, UploadError> {
        (**self).enumerate_pending(group, after, limit).await
    }

    async fn confirm_ready(&self) -> Result<(), UploadError> {
        (**self).confirm_ready().await
    }
}
