//! What became of an upload.

use jiff::Timestamp;
use redrive_core::{Failure, ItemId};

/// How an upload ended as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadOutcome {
    /// Everything was acknowledged.
    Success,
    /// Some item was not.
    Partial,
    /// The batch was refused as a whole; no item was judged.
    Failure,
}

impl UploadOutcome {
    /// Its name for people and programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Partial => "partial",
            Self::Failure => "failure",
        }
    }
}

/// What became of an item.
#[derive(Debug, Clone, PartialEq)]
pub enum ItemOutcome {
    /// It was acknowledged.
    Uploaded,
    /// It was rejected, and is still pending.
    Rejected(Failure),
    /// It was rejected once too often.
    GivenUp {
        /// How often, over all calls.
        attempts: u32,
        /// Why it was rejected last.
        failure: Failure,
    },
    /// It was not judged: the upload ended before. It is still pending, and nothing is counted.
    NotSent,
}

impl ItemOutcome {
    /// Why it was rejected, if it was.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Rejected(failure) | Self::GivenUp { failure, .. } => Some(failure),
            Self::Uploaded | Self::NotSent => None,
        }
    }
}

/// What became of one item.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemReport {
    /// The item.
    pub item: ItemId,
    /// What became of it.
    pub outcome: ItemOutcome,
}

/// What became of an upload.
#[derive(Debug, Clone, PartialEq)]
pub struct UploadReport {
    /// How it ended.
    pub outcome: UploadOutcome,
    /// Every item that was taken up, by id, as it ended last.
    pub items: Vec<ItemReport>,
    /// How often the call was repeated.
    pub retry_count: u32,
    /// When to come again for what is pending.
    pub next_retry_at: Option<Timestamp>,
    /// Why the batch was refused as a whole, if it was.
    pub refusal: Option<Failure>,
    /// Whether it was told to stop before it was through. Then it is [`UploadOutcome::Partial`] if
    /// anything is left.
    pub interrupted: bool,
}

impl UploadReport {
    /// The report of a call that ends like this.
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

    /// The items that were rejected, with why.
    pub fn rejected(&self) -> impl Iterator<Item = (ItemId, &Failure)> {
        self.items.iter().filter_map(|report| match &report.outcome {
            ItemOutcome::Rejected(failure) => Some((report.item, failure)),
            _ => None,
        })
    }

    /// How many items ended in a way.
    pub fn count(&self, of: impl Fn(&ItemOutcome) -> bool) -> usize {
        self.items.iter().filter(|report| of(&report.outcome)).count()
    }
}
