//! The columns of `partition_work`, assembled once for every database.

use jiff::Timestamp;
use redrive_core::{Epoch, PartitionRunId};

use crate::{Lane, Operator, PartitionWorkRecord, WorkKind, WorkRequest, WorkerId};

/// The columns of a work row in the order in which every query reads them. All are empty for a
/// partition without a work row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkColumns {
    pub id: Option<i64>,
    pub kind: Option<WorkKind>,
    pub lane: Option<Lane>,
    pub requested_at: Option<Timestamp>,
    pub requested_by: Option<String>,
    pub run_id: Option<PartitionRunId>,
    pub lease_owner: Option<String>,
    pub lease_epoch: Option<i64>,
    pub lease_until: Option<Timestamp>,
    pub paused_at: Option<Timestamp>,
    pub paused_by: Option<String>,
    pub pause_reason: Option<String>,
}

impl WorkColumns {
    /// `None` for a partition without a work row.
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
