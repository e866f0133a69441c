//! The interface of uploaders: the HTTP uploader, the retrying uploader, and uploaders of users.

use async_trait::async_trait;
use redrive_core::{Epoch, Failure, ItemId};
use redrive_store::{ItemGroup, ItemRecord, LeaseRef};

use crate::{Stop, uploads::UploadReport};

#[derive(Debug, Clone)]
pub struct UploadRequest {
    /// The group whose pending items are sent.
    pub group: ItemGroup,
    /// After a stop nothing more is sent, and a sleep ends at once.
    pub stop: Option<Stop>,
    /// Of the lease on the group. Items count for gates while it lasts.
    pub epoch: Epoch,
}

impl UploadRequest {
    /// All pending items of a group.
    pub fn new(group: ItemGroup) -> Self {
        Self { group, stop: None, epoch: Epoch(0) }
    }

    pub fn with_stop(self, stop: Stop) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// Under the lease on the group.
    pub fn under(self, lease: LeaseRef) -> Self {
        Self { epoch: lease.epoch, ..self }
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(Stop::is_stopped)
    }

    /// Waits for the stop; forever if there is none.
    pub(crate) async fn stopped(&self) {
        match self.stop.clone() {
            Some(mut stop) => stop.stopped().await,
            None => std::future::pending().await,
        }
    }
}

/// Why an upload could not be made. No item was acknowledged or rejected, and no attempt is counted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UploadError {
    #[error("the upload is not ready: {}", .0.message())]
    NotReady(Failure),
    #[error("the endpoint cannot be reached: {}", .0.message())]
    Unreachable(Failure),
    /// The content of the items could not be reached.
    #[error("the items cannot be read: {}", .0.message())]
    Unreadable(Failure),
    #[error("the store cannot be used")]
    Store(#[from] redrive_store::Error),
    /// For uploaders of users.
    #[error("the upload failed")]
    Other(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Sends the pending items of a group.
///
/// An implementation marks each acknowledged item as uploaded at once and leaves rejected items pending. It does
/// not count rejections.
#[async_trait]
pub trait Uploader: Send + Sync {
    /// Sends the pending items of a group, each once.
    async fn upload_pending(&self, request: &UploadRequest) -> Result<UploadReport, UploadError>;

    /// A page of the pending items with ids above `after`, by id.
    async fn enumerate_pending(
        &self,
        group: &ItemGroup,
        after: ItemId,
        limit: u32,
    ) -> Result<Vec<ItemRecord>, UploadError>;

    /// Fails unless an upload may start now.
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
