//! Uploads: bounded retry of batches that half succeed (UPL).
//!
//! ```text
//! RetryingUploader ─► inner.upload_pending ─► success, failure, error ─► as it is
//!        ▲                  │ partial
//!        │                  ▼
//!        │     every rejected item: attempts + 1; spent ─► upload_giveup, told in the journal
//!        └── sleep ◄── retries and pending items left?  ─ no ─► partial, with a hint when to come again
//! ```
//!
//! Two budgets bound it: the retries of a call, and the attempts of an item over all calls. Items that
//! were acknowledged are no longer pending, so that a retry sends the rest alone; a later call does too.
//! [`build_uploader`] is the one place where uploaders are put together.

mod report;
mod uploader;

mod settings;

mod retrying;

mod giveup;

mod event;

mod content;
mod folder_content;
mod local_files;
mod object_content;

mod body;

mod http_uploader;
mod item_sender;
mod item_supply;
mod lanes;
mod recorder;

mod group_lease;
mod group_upload;

mod giveup_file;

mod build;

pub use build::{UploadPlan, build_uploader};
pub(crate) use content::hex;
pub use content::{Chunks, Content, ContentError, KeptContent, NewContent, sha256_of};
pub use event::{UploadEvent, UploadObserver};
pub use folder_content::FolderContent;
pub use giveup_file::{GiveupFile, GiveupFileError};
pub use group_lease::{GroupBusy, GroupLease, GroupStart};
pub use group_upload::{GroupSending, GroupSent, GroupUpload};
pub use http_uploader::{HttpUpload, HttpUploader};
pub use local_files::reference_content;
pub use report::{ItemOutcome, ItemReport, UploadOutcome, UploadReport};
pub use retrying::RetryingUploader;
pub use settings::RetrySettings;
pub use uploader::{UploadError, UploadRequest, Uploader};
