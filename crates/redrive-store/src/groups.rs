//! Groups of items: who is uploading one.
//!
//! Two uploads of one group at once would send everything twice and count every rejection twice. So who
//! uploads a group holds it by a lease.

use jiff::Timestamp;

use crate::{ItemGroup, LeaseRef, WorkerId};

/// Whoever asks for a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupClaim {
    /// The group. It need not hold any item yet.
    pub group: ItemGroup,
    /// Who asks.
    pub owner: WorkerId,
    /// The store's clock, by which another's lease has ended or not.
    pub now: Timestamp,
    /// The end of the lease, on the store's clock.
    pub lease_until: Timestamp,
}

/// What became of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimedGroup {
    /// The group is held.
    Held(LeaseRef),
    /// Someone else holds it; nothing changed.
    Busy {
        /// Who.
        owner: WorkerId,
        /// Until when, on the store's clock, unless it is renewed.
        until: Timestamp,
    },
}
