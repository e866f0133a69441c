//! The state machine of an upload item (UPL-5).
//!
//! An item has no error state: a rejected attempt leaves the item pending until its attempts are
//! spent. `trusted` and `rejected`, which the receiver reports after the upload, are final.

use std::fmt;

use crate::IllegalTransition;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ItemStatus {
    Pending,
    Uploaded,
    /// The receiver confirmed the item after the upload.
    Trusted,
    /// The receiver refused the item after the upload.
    Rejected,
    /// The attempts are spent; only an operator can reset the item.
    UploadGiveup,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ItemEvent {
    Acknowledge,
    /// The receiver rejected an attempt; the item may be sent again.
    RejectAttempt,
    GiveUp,
    Trust,
    Refuse,
    Reset,
    /// An operator gave the item new content.
    Replace,
}

impl ItemStatus {
    pub const ALL: [Self; 5] =
        [Self::Pending, Self::Uploaded, Self::Trusted, Self::Rejected, Self::UploadGiveup];

    /// The next status, or an error if the status does not allow the event.
    ///
    /// ```
    /// use redrive_core::{ItemEvent, ItemStatus};
    ///
    /// assert_eq!(ItemStatus::Pending.apply(ItemEvent::RejectAttempt)?, ItemStatus::Pending);
    /// assert!(ItemStatus::UploadGiveup.apply(ItemEvent::Acknowledge).is_err());
    /// # Ok::<(), redrive_core::IllegalTransition>(())
    /// ```
    pub fn apply(self, event: ItemEvent) -> Result<Self, IllegalTransition> {
        use ItemEvent as E;
        match (self, event) {
            (Self::Pending, E::Acknowledge) => Ok(Self::Uploaded),
            (Self::Pending, E::RejectAttempt) => Ok(Self::Pending),
            (Self::Pending, E::GiveUp) => Ok(Self::UploadGiveup),
            (Self::Uploaded, E::Trust) => Ok(Self::Trusted),
            (Self::Uploaded, E::Refuse) => Ok(Self::Rejected),
            (Self::UploadGiveup, E::Reset) => Ok(Self::Pending),
            (Self::Pending, E::Replace) => Ok(Self::Pending),
            (state, event) => {
                Err(IllegalTransition { kind: "item", state: state.name(), event: event.name() })
            }
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Uploaded => "uploaded",
            Self::Trusted => "trusted",
            Self::Rejected => "rejected",
            Self::UploadGiveup => "upload_giveup",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

impl ItemEvent {
    pub const ALL: [Self; 7] = [
        Self::Acknowledge,
        Self::RejectAttempt,
        Self::GiveUp,
        Self::Trust,
        Self::Refuse,
        Self::Reset,
        Self::Replace,
    ];

    /// The name in messages and in the documentation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Acknowledge => "acknowledge",
            Self::RejectAttempt => "reject attempt",
            Self::GiveUp => "give up",
            Self::Trust => "trust",
            Self::Refuse => "refuse",
            Self::Reset => "reset",
            Self::Replace => "replace",
        }
    }
}

impl fmt::Display for ItemStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
