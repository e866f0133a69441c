//! The result of an upload.

use jiff::Timestamp;
use redrive_core::{Failure, ItemId};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadOutcome {
    Success,
    Partial,
    /// The server refused the whole batch; no item was acknowledged or rejected.
    Failure,
}

impl UploadOutcome {
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Partial => "partial",
            Self::Failure => "failure",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum ItemOutcome {
    Uploaded,
    /// The item is still pending.
    Rejected(Failure),
    /// The attempts of the item are spent.
    GivenUp {
        /// Over all calls.
        attempts: u32,
        /// The last rejection.
        failure: Failure,
    },
    /// The upload ended first. The item is still pending, and no attempt is counted.
    NotSent,
}

impl ItemOutcome {
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Rejected(failure) | Self::GivenUp { failure, .. } => Some(failure),
            Self::Uploaded | Self::NotSent => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ItemReport {
    pub item: ItemId,
    pub outcome: ItemOutcome,
}

#[derive(Debug, Clone, PartialEq)]
pub struct UploadReport {
    pub outcome: UploadOutcome,
    /// The last outcome of every item that was sent, by id.
    pub items: Vec<ItemReport>,
    pub retry_count: u32,
    /// When to upload the pending items again.
    pub next_retry_at: Option<Timestamp>,
    /// Set if the server refused the whole batch.
    pub refusal: Option<Failure>,
    /// Whether the upload was stopped before its end. The outcome is [`UploadOutcome::Partial`] if items are left.
    pub interrupted: bool,
}

impl UploadReport {
    pub fn new(outcome: UploadOutcome, items: Vec<ItemReport>) -> Self {
        Self {
            outcome,
            items,
            retry_count: 0,
            next_retry_at: None,
            refusal: None,
            interrupted: false,
        }
    }

    pub fn rejected(&self) -> impl Iterator<Item = (ItemId, &Failure)> {
        self.items.iter().filter_map(|report| match &report.outcome {
            ItemOutcome::Rejected(failure) => Some((report.item, failure)),
            _ => None,
        })
    }

    pub fn count(&self, of: impl Fn(&ItemOutcome) -> bool) -> usize {
        self.items.iter().filter(|report| of(&report.outcome)).count()
    }
}
