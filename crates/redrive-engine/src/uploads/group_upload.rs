//! Uploads a group from start to end: claims it, sends its items, releases it.
//!
//! Both the command line and the server upload groups with this module.

use std::{fmt, sync::Arc, time::Duration};

use redrive_core::Message;
use redrive_store::{
    ItemGroup, JournalEntry, JournalFilter, Operator, Result, Store, WorkerId, Written,
};
use serde_json::{Value, json};

use crate::{
    Clock, Stop, Stopper, SystemClock,
    uploads::{
        EarlyItems, GiveupFile, GroupBusy, GroupLease, GroupStart, UploadError, UploadReport,
        UploadRequest, Uploader,
    },
};

/// The journal action of the start of an upload.
const SEND: &str = "upload.send";

/// How many of the newest journal entries are searched for the start of an upload.
const RECENT: u32 = 1_000;

/// Uploads the groups of one upload declaration. Each group is uploaded by one process at a time.
#[derive(Clone)]
pub struct GroupUpload {
    uploader: Arc<dyn Uploader>,
    store: Arc<dyn Store>,
    worker: WorkerId,
    lease: Duration,
    /// How long an item waits after its last rejection.
    cap: Duration,
    giveup_file: Option<GiveupFile>,
}

/// Why a group is not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendRefusal {
    /// Another process is uploading the group.
    Busy(GroupBusy),
    /// Sending now spends an attempt of items that should wait.
    Early(EarlyItems),
}

/// A claimed group, ready to be sent.
#[derive(Debug)]
pub struct GroupSending {
    upload: GroupUpload,
    group: ItemGroup,
    lease: GroupLease,
}

#[derive(Debug)]
pub struct GroupSent {
    pub report: std::result::Result<UploadReport, UploadError>,
    /// Whether the lease was lost, so that another process may hold the group.
    pub lost: bool,
}

impl GroupUpload {
    /// `lease` is the length of the leases on groups.
    pub fn new(
        uploader: Arc<dyn Uploader>,
        store: Arc<dyn Store>,
        worker: WorkerId,
        lease: Duration,
    ) -> Self {
        Self { uploader, store, worker, lease, cap: Duration::ZERO, giveup_file: None }
    }

    /// Sets how long an item waits after its last rejection. By default, items can be sent at any time.
    pub fn with_cap(self, cap: Duration) -> Self {
        Self { cap, ..self }
    }

    /// Sets the file of give-ups. Each upload first adds the give-ups that a killed process could not write.
    pub fn with_giveup_file(self, giveup_file: Option<GiveupFile>) -> Self {
        Self { giveup_file, ..self }
    }

    pub fn worker(&self) -> &WorkerId {
        &self.worker
    }

    /// The items of a group that should wait.
    pub async fn early_items(&self, group: &ItemGroup) -> Result<Option<EarlyItems>> {
        EarlyItems::find(&*self.store, group, self.cap, SystemClock.now()).await
    }

    /// Claims a group and writes a journal entry with the operator who asked for it. `now` says that items which should
    /// wait are sent, too.
    pub async fn begin(
        &self,
        group: &ItemGroup,
        by: &Operator,
        now: bool,
    ) -> Result<std::result::Result<GroupSending, SendRefusal>> {
        let taken = GroupLease::take(self.store.clone(), group, self.worker.clone(), self.lease);
        let lease = match taken.await? {
            Ok(lease) => lease,
            Err(busy) => {
                let started = self.find_start(group, &busy.owner).await?;
                return Ok(Err(SendRefusal::Busy(GroupBusy { started, ..busy })));
            }
        };
        match if now { Ok(None) } else { self.early_items(group).await } {
            Ok(None) => {}
            Ok(Some(early)) => {
                _ = release(lease, "early").await;
                return Ok(Err(SendRefusal::Early(early)));
            }
            Err(error) => {
                _ = release(lease, "error").await;
                return Err(error);
            }
        }
        if let Err(error) = self.store.append_journal(&[self.entry(group, by)]).await {
            _ = release(lease, "error").await;
            return Err(error);
        }
        if let Some(file) = &self.giveup_file
            && let Err(error) = file.catch_up(&*self.store).await
        {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(
                error,
                "cannot write the file of give-ups; the journal has them, and the next upload writes them again"
            );
        }
        Ok(Ok(GroupSending { upload: self.clone(), group: group.clone(), lease }))
    }

    /// When and for whom another process started to upload a group. The lease does not have it, and the journal
    /// has no index on groups, so only the newest entries are searched.
    async fn find_start(&self, group: &ItemGroup, owner: &WorkerId) -> Result<Option<GroupStart>> {
        let newest = self.store.newest_journal(&JournalFilter::default(), i64::MAX, RECENT).await?;
        let filter = Some(filter_of(group));
        let sends = newest.into_iter().map(|row| row.entry).filter(|entry| entry.action == SEND);
        let mut sends = sends.filter(|entry| entry.filter == filter);
        let is_by_owner = |entry: &JournalEntry| {
            let details: Value = serde_json::from_str(&entry.details).unwrap_or_default();
            details.get("worker").and_then(Value::as_str) == Some(&owner.0)
        };
        // If the entry of this upload is not written yet, or too old, an earlier upload must not be reported.
        let last = sends.next().filter(is_by_owner);
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

/// A group in the `filter` of a journal entry.
fn filter_of(group: &ItemGroup) -> String {
    json!({ "upload": group.upload, "group": group.group }).to_string()
}

impl GroupSending {
    /// Sends the pending items until done or stopped, and releases the group. If this is dropped before the end,
    /// the group is free when its lease expires.
    pub async fn run(self, mut stop: Stop) -> GroupSent {
        let (stopper, stopped) = Stopper::new();
        let request = UploadRequest::new(self.group).with_stop(stopped).under(self.lease.lease());
        let mut work = self.upload.uploader.upload_pending(&request);
        let mut lost = self.lease.lost();
        let report = tokio::select! {
            report = &mut work => report,
            () = async { tokio::select! { () = stop.stopped() => {}, () = lost.stopped() => {} } } => {
                stopper.stop();
                tracing::info!("stopping: items that are being sent may finish, no more items are sent");
                (&mut work).await
            }
        };
        drop(work);
        let lost = lost.is_stopped();
        let released = match &report {
            Ok(report) if report.interrupted => release(self.lease, "shutdown").await,
            Ok(_) => release(self.lease, "done").await,
            Err(error) => {
                let why = Message::clean(&format!("error: {error}"));
                release(self.lease, why.as_str()).await
            }
        };
        GroupSent { report, lost: lost || released == Written::Stale }
    }
}

/// Releases a group. If the store fails, the group is free when its lease expires.
async fn release(lease: GroupLease, why: &str) -> Written {
    match lease.release(why, SystemClock.now()).await {
        Ok(written) => written,
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "cannot release the group; it is free when its lease expires");
            Written::Applied
        }
    }
}

impl fmt::Debug for GroupUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupUpload").field("worker", &self.worker).finish_non_exhaustive()
    }
}
