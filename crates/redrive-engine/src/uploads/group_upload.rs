//! Sending a group from beginning to end: its lease, the calls, and giving it back.
//!
//! The command line and the server send groups by this and by nothing else.

use std::{fmt, sync::Arc, time::Duration};

use redrive_core::Message;
use redrive_store::{
    ItemGroup, JournalEntry, JournalFilter, Operator, Result, Store, WorkerId, Written,
};
use serde_json::{Value, json};

use crate::{
    Clock, Stop, Stopper, SystemClock,
    uploads::{
        GiveupFile, GroupBusy, GroupLease, GroupStart, UploadError, UploadReport, UploadRequest,
        Uploader,
    },
};

/// How the journal calls a sending that begins.
const SEND: &str = "upload.send";

/// Entries of the journal that are looked through for one.
const RECENT: u32 = 1_000;

/// What sends the groups of an upload, one at a time each.
#[derive(Clone)]
pub struct GroupUpload {
    uploader: Arc<dyn Uploader>,
    store: Arc<dyn Store>,
    worker: WorkerId,
    lease: Duration,
    giveup_file: Option<GiveupFile>,
}

/// A group that is held, and about to be sent.
#[derive(Debug)]
pub struct GroupSending {
    upload: GroupUpload,
    group: ItemGroup,
    lease: GroupLease,
}

/// How the sending of a group ended.
#[derive(Debug)]
pub struct GroupSent {
    /// What it came to.
    pub report: std::result::Result<UploadReport, UploadError>,
    /// Whether the lease was lost: someone else may have the group.
    pub lost: bool,
}

impl GroupUpload {
    /// With an uploader, as a worker who holds groups by leases of this length.
    pub fn new(
        uploader: Arc<dyn Uploader>,
        store: Arc<dyn Store>,
        worker: WorkerId,
        lease: Duration,
    ) -> Self {
        Self { uploader, store, worker, lease, giveup_file: None }
    }

    /// With a file that is told of every give-up, also of those that one who was killed could not tell.
    pub fn with_giveup_file(self, giveup_file: Option<GiveupFile>) -> Self {
        Self { giveup_file, ..self }
    }

    /// Who sends.
    pub fn worker(&self) -> &WorkerId {
        &self.worker
    }

    /// Takes a group for whoever wants it sent, which the journal is told; or says who has it.
    pub async fn begin(
        &self,
        group: &ItemGroup,
        by: &Operator,
    ) -> Result<std::result::Result<GroupSending, GroupBusy>> {
        let taken = GroupLease::take(self.store.clone(), group, self.worker.clone(), self.lease);
        let lease = match taken.await? {
            Ok(lease) => lease,
            Err(busy) => {
                let started = self.started(group, &busy.owner).await?;
                return Ok(Err(GroupBusy { started, ..busy }));
            }
        };
        if let Err(error) = self.store.append_journal(&[self.entry(group, by)]).await {
            _ = release(lease, "error").await;
            return Err(error);
        }
        if let Some(file) = &self.giveup_file
            && let Err(error) = file.catch_up(&*self.store).await
        {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "cannot write the file of give-ups; the journal has them");
        }
        Ok(Ok(GroupSending { upload: self.clone(), group: group.clone(), lease }))
    }

    /// When another began to send a group. The lease does not say it and the journal has no index of groups, so
    /// only its newest entries are looked through.
    async fn started(&self, group: &ItemGroup, owner: &WorkerId) -> Result<Option<GroupStart>> {
        let newest = self.store.newest_journal(&JournalFilter::default(), i64::MAX, RECENT).await?;
        let filter = Some(filter_of(group));
        let sends = newest.into_iter().map(|row| row.entry).filter(|entry| entry.action == SEND);
        let mut sends = sends.filter(|entry| entry.filter == filter);
        let is_theirs = |entry: &JournalEntry| {
            let details: Value = serde_json::from_str(&entry.details).unwrap_or_default();
            details.get("worker").and_then(Value::as_str) == Some(&owner.0)
        };
        // A sending that is not told of yet, or too long ago, must not be taken for the one before it.
        let last = sends.next().filter(is_theirs);
        Ok(last.map(|entry| GroupStart { at: entry.at, by: entry.actor }))
    }

    fn entry(&self, group: &ItemGroup, by: &Operator) -> JournalEntry {
        let by = by.cleaned();
        JournalEntry {
            at: by.at,
            actor: by.actor,
            action: SEND.to_owned(),
            unit: None,
            filter: Some(filter_of(group)),
            details: json!({ "worker": self.worker.0, "reason": by.reason }).to_string(),
            dedupe_key: None,
        }
    }
}

/// A group as the journal has it.
fn filter_of(group: &ItemGroup) -> String {
    json!({ "upload": group.upload, "group": group.group }).to_string()
}

impl GroupSending {
    /// Sends what is pending, until told to stop, and gives the group back. Dropped before, it leaves the
    /// group to the end of its lease.
    pub async fn run(self, mut stop: Stop) -> GroupSent {
        let (stopper, stopped) = Stopper::new();
        let request = UploadRequest::new(self.group).with_stop(stopped);
        let mut work = self.upload.uploader.upload_pending(&request);
        let mut lost = self.lease.lost();
        let report = tokio::select! {
            report = &mut work => report,
            () = async { tokio::select! { () = stop.stopped() => {}, () = lost.stopped() => {} } } => {
                stopper.stop();
                tracing::info!("stopping: what is under way may end, nothing more is sent");
                (&mut work).await
            }
        };
        drop(work);
        let lost = lost.is_stopped();
        let given_back = match &report {
            Ok(report) if report.interrupted => release(self.lease, "shutdown").await,
            Ok(_) => release(self.lease, "done").await,
            Err(error) => {
                let why = Message::clean(&format!("error: {error}"));
                release(self.lease, why.as_str()).await
            }
        };
        GroupSent { report, lost: lost || given_back == Written::Stale }
    }
}

/// Gives a group back. Where that cannot be written it is free when its lease ends.
async fn release(lease: GroupLease, why: &str) -> Written {
    match lease.release(why, SystemClock.now()).await {
        Ok(written) => written,
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "cannot give the group back; it is free when its lease ends");
            Written::Applied
        }
    }
}

impl fmt::Debug for GroupUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupUpload").field("worker", &self.worker).finish_non_exhaustive()
    }
}
