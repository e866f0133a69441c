//! A row of work as databases have it, put together once for every database.

use jiff::Timestamp;
use redrive_core::{Epoch, PartitionRunId};

use crate::{Lane, Operator, PartitionWorkRecord, WorkKind, WorkRequest, WorkerId};

/// The columns of a row of work, in the order in which every query reads them. All are empty where a
/// partition has no work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkColumns {
    /// Its row.
    pub id: Option<i64>,
    /// What is asked for.
    pub kind: Option<WorkKind>,
    /// With whom it competes.
    pub lane: Option<Lane>,
    /// When it was asked for.
    pub requested_at: Option<Timestamp>,
    /// By whom.
    pub requested_by: Option<String>,
    /// The run that was begun.
    pub run_id: Option<PartitionRunId>,
    /// Who holds it.
    pub lease_owner: Option<String>,
    /// Under which epoch.
    pub lease_epoch: Option<i64>,
    /// Until when.
    pub lease_until: Option<Timestamp>,
    /// When the partition was paused.
    pub paused_at: Option<Timestamp>,
    /// By whom.
    pub paused_by: Option<String>,
    /// And why.
    pub pause_reason: Option<String>,
}

impl WorkColumns {
    /// The work; none where there is no row.
    pub fn into_work(self) -> Option<PartitionWorkRecord> {
        let request = self.kind.zip(self.lane).zip(self.requested_at.zip(self.requested_by));
        let request = request.map(|((kind, lane), (requested_at, requested_by))| WorkRequest {
            kind,
            lane,
            requested_at,
            requested_by,
        });
        let reason = self.pause_reason;
        let paused = self.paused_at.zip(self.paused_by);
        Some(PartitionWorkRecord {
            id: self.id?,
            request,
            run_id: self.run_id,
            lease_owner: self.lease_owner.map(WorkerId),
            lease_epoch: Epoch(self.lease_epoch.unwrap_or_default()),
            lease_until: self.lease_until,
            paused: paused.map(|(at, actor)| Operator { actor, at, reason }),
        })
    }
}
