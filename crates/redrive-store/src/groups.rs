//! Upload groups and their leases.
//!
//! Two concurrent uploads of one group would send every item twice and count every rejection twice.
//! So an uploader holds a lease on its group.

use jiff::Timestamp;

use crate::{ItemGroup, LeaseRef, WorkerId};

/// A request for the lease of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupClaim {
    /// The group may have no items yet.
    pub group: ItemGroup,
    pub owner: WorkerId,
    /// The time on the store's clock that decides whether another lease has ended.
    pub now: Timestamp,
    /// The end of the lease, on the store's clock.
    pub lease_until: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimedGroup {
    Held(LeaseRef),
    /// Another worker holds the group; nothing changed.
    Busy {
        owner: WorkerId,
        /// The end of the other lease on the store's clock, unless it is renewed.
        until: Timestamp,
    },
}
