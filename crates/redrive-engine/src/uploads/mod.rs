//! Uploads: bounded retries of batches that succeed in part (UPL).
//!
//! ```text
//! RetryingUploader ─► inner.upload_pending ─► success, failure, error ─► returned as it is
//!        ▲                  │ partial
//!        │                  ▼
//!        │     every rejected item: attempts + 1; budget spent ─► given up, with a journal entry
//!        └── sleep ◄── retries and pending items left?  ─ no ─► partial, with the time of the next retry
//! ```
//!
//! Two budgets limit it: the retries of a call, and the attempts of an item over all calls. Acknowledged items
//! are no longer pending, so a retry or a later call sends only the rest. [`build_uploader`] assembles the
//! uploaders of the command line and the server.

mod report;
mod uploader;

mod settings;

mod retrying;

mod giveup;

mod event;

mod content;
mod folder_content;
mod local_files;
#[cfg(feature = "objects")]
mod object_content;

#[cfg(feature = "http")]
mod body;

#[cfg(feature = "http")]
mod http_uploader;
#[cfg(feature = "http")]
mod item_gates;
#[cfg(feature = "http")]
mod item_sender;
#[cfg(feature = "http")]
mod item_supply;
#[cfg(feature = "http")]
mod lanes;
#[cfg(feature = "http")]
mod recorder;

mod early_items;
mod group_lease;
mod group_upload;

mod giveup_file;

#[cfg(feature = "http")]
mod build;

#[cfg(feature = "http")]
pub use build::{UploadPlan, build_uploader};
pub(crate) use content::hex;
pub use content::{
    Chunks, Content, ContentError, KeptContent, NewContent, is_content_at_fault, sha256_of,
};
pub use early_items::EarlyItems;
pub use event::{UploadEvent, UploadObserver};
pub use folder_content::FolderContent;
pub use giveup_file::{GiveupFile, GiveupFileError};
pub use group_lease::{GroupBusy, GroupLease, GroupStart};
pub use group_upload::{GroupSending, GroupSent, GroupUpload, SendRefusal};
#[cfg(feature = "http")]
pub use http_uploader::{HttpUpload, HttpUploader};
pub use local_files::reference_content;
pub use report::{ItemOutcome, ItemReport, UploadOutcome, UploadReport};
pub use retrying::RetryingUploader;
pub use settings::{DEFAULT_IN_CALL_RETRIES, RetrySettings};
pub use uploader::{UploadError, UploadRequest, Uploader};
