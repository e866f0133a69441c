//! The life of an item of an upload (UPL-5).
//!
//! An item has no error state: a rejection leaves it pending until its budget is spent. What the
//! receiver later makes of an uploaded item, `trusted` or `rejected`, ends its life.

use std::fmt;

use crate::IllegalTransition;

/// The status of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ItemStatus {
    /// Not yet acknowledged.
    Pending,
    /// Acknowledged by the receiver.
    Uploaded,
    /// The receiver vouches for it.
    Trusted,
    /// The receiver refused it for good.
    Rejected,
    /// Its attempts are spent; only an operator brings it back.
    UploadGiveup,
}

/// What can happen to an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ItemEvent {
    /// The receiver acknowledged it.
    Acknowledge,
    /// An attempt was rejected; the item may be sent again.
    RejectAttempt,
    /// Its attempts are spent.
    GiveUp,
    /// The receiver vouches for it.
    Trust,
    /// The receiver refuses it for good.
    Refuse,
    /// An operator brings it back.
    Reset,
}

impl ItemStatus {
    /// All statuses, in the order of the specification.
    pub const ALL: [Self; 5] =
        [Self::Pending, Self::Uploaded, Self::Trusted, Self::Rejected, Self::UploadGiveup];

    /// The status after an event, or why it cannot be.
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
            (state, event) => {
                Err(IllegalTransition { kind: "item", state: state.name(), event: event.name() })
            }
        }
    }

    /// The name under which the status is stored.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Uploaded => "uploaded",
            Self::Trusted => "trusted",
            Self::Rejected => "rejected",
            Self::UploadGiveup => "upload_giveup",
        }
    }

    /// The status of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

impl ItemEvent {
    /// All events.
    pub const ALL: [Self; 6] = [
        Self::Acknowledge,
        Self::RejectAttempt,
        Self::GiveUp,
        Self::Trust,
        Self::Refuse,
        Self::Reset,
    ];

    /// Its name in messages and in the documentation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Acknowledge => "acknowledge",
            Self::RejectAttempt => "reject attempt",
            Self::GiveUp => "give up",
            Self::Trust => "trust",
            Self::Refuse => "refuse",
            Self::Reset => "reset",
        }
    }
}

impl fmt::Display for ItemStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
