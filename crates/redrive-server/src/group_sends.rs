//! Groups of uploads that this server sends.
//!
//! A sending outlives the request that asked for it, and ends with the server: told to stop, it lets what is
//! under way end and gives its group back.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::http::StatusCode;
use jiff::Timestamp;
use redrive_engine::{GroupBusy, GroupSent, GroupUpload, ItemOutcome, Stop, Stopper};
use redrive_store::{ItemGroup, Operator};
use tokio::{sync::oneshot, task::JoinSet};

use crate::problem::ProblemDetails;

/// Groups that are sent at once.
const MAX_GROUP_SENDS: usize = 32;

/// The uploads that are declared, by name: what sends their groups, or why that cannot be done from here.
pub type Uploads = BTreeMap<String, Result<GroupUpload, String>>;

/// Since when a group is being sent.
type ActiveSends = Arc<Mutex<HashMap<ItemGroup, Timestamp>>>;

/// All of them.
pub(crate) struct GroupSends {
    uploads: Uploads,
    active: ActiveSends,
    tasks: Mutex<JoinSet<()>>,
    stopper: Stopper,
    stop: Stop,
}

/// What is heard of a group: that it is held, or why not.
type LeaseOutcome = redrive_store::Result<Result<(), GroupBusy>>;

impl GroupSends {
    pub(crate) fn new(uploads: Uploads) -> Self {
        let (stopper, stop) = Stopper::new();
        Self { uploads, active: Arc::default(), tasks: Mutex::default(), stopper, stop }
    }

    /// Whether an upload is declared.
    pub(crate) fn knows(&self, upload: &str) -> bool {
        self.uploads.contains_key(upload)
    }

    /// What is said of an upload that is not declared.
    pub(crate) fn unknown(&self, upload: &str) -> ProblemDetails {
        let known: Vec<&str> = self.uploads.keys().map(String::as_str).collect();
        let problem = ProblemDetails::not_found(format!("no upload {upload:?} is declared"));
        if known.is_empty() { problem } else { problem.allowed(known.join(", ")) }
    }

    /// Since when a group is being sent from here.
    pub(crate) fn since(&self, group: &ItemGroup) -> Option<Timestamp> {
        locked(&self.active).get(group).copied()
    }

    /// Takes a group and begins to send it. Says who does.
    pub(crate) async fn begin(
        &self,
        group: ItemGroup,
        by: Operator,
    ) -> Result<String, ProblemDetails> {
        let upload = match self.uploads.get(&group.upload) {
            None => return Err(self.unknown(&group.upload)),
            Some(Ok(upload)) => upload.clone(),
            Some(Err(why)) => {
                let what = format!("upload {:?} cannot be sent from here: {why}", group.upload);
                return Err(ProblemDetails::new(StatusCode::UNPROCESSABLE_ENTITY, what));
            }
        };
        let worker = upload.worker().0.clone();
        let (telling, told) = oneshot::channel();
        let sending = GroupSend {
            upload,
            group: group.clone(),
            by,
            active: Arc::clone(&self.active),
            stop: self.stop.clone(),
        };
        self.spawn(sending, telling)?;
        match told.await {
            Ok(Ok(Ok(()))) => Ok(worker),
            Ok(Ok(Err(busy))) => Err(refusal(&group, &busy)),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(unable("the server could not begin")),
        }
    }

    /// In a task of its own: whoever asked may hang up.
    fn spawn(
        &self,
        sending: GroupSend,
        telling: oneshot::Sender<LeaseOutcome>,
    ) -> Result<(), ProblemDetails> {
        let mut tasks = locked(&self.tasks);
        while tasks.try_join_next().is_some() {}
        if self.stop.is_stopped() {
            return Err(unable("the server is stopping; nothing was sent"));
        }
        if tasks.len() >= MAX_GROUP_SENDS {
            let what = format!("{MAX_GROUP_SENDS} groups are being sent already; nothing was sent");
            return Err(unable(what).retry_after(1));
        }
        tasks.spawn(sending.run(telling));
        Ok(())
    }

    /// Tells all of them to stop, and lets none begin.
    pub(crate) fn stop(&self) {
        self.stopper.stop();
    }

    /// Waits until they have ended.
    pub(crate) async fn ended(&self) {
        let mut tasks = std::mem::take(&mut *locked(&self.tasks));
        while tasks.join_next().await.is_some() {}
    }
}

/// One of them.
struct GroupSend {
    upload: GroupUpload,
    group: ItemGroup,
    by: Operator,
    active: ActiveSends,
    stop: Stop,
}

impl GroupSend {
    async fn run(self, telling: oneshot::Sender<LeaseOutcome>) {
        // Whoever hung up need not hear it.
        let sending = match self.upload.begin(&self.group, &self.by).await {
            Ok(Ok(sending)) => sending,
            Ok(Err(busy)) => return telling.send(Ok(Err(busy))).unwrap_or_default(),
            Err(error) => return telling.send(Err(error)).unwrap_or_default(),
        };
        let _listed = ActiveSend::new(self.active, self.group.clone(), self.by.at);
        _ = telling.send(Ok(Ok(())));
        let sent = sending.run(self.stop).await;
        tell_end(&self.group, &sent);
    }
}

/// A group that stands among those under way, as long as this is there.
struct ActiveSend {
    active: ActiveSends,
    group: ItemGroup,
}

impl ActiveSend {
    fn new(active: ActiveSends, group: ItemGroup, since: Timestamp) -> Self {
        locked(&active).insert(group.clone(), since);
        Self { active, group }
    }
}

impl Drop for ActiveSend {
    fn drop(&mut self) {
        locked(&self.active).remove(&self.group);
    }
}

fn tell_end(group: &ItemGroup, sent: &GroupSent) {
    let ItemGroup { upload, group } = group;
    match &sent.report {
        Ok(report) => tracing::info!(
            upload,
            group,
            outcome = report.outcome.name(),
            uploaded = report.count(|outcome| *outcome == ItemOutcome::Uploaded),
            rejected = report.count(|outcome| matches!(outcome, ItemOutcome::Rejected(_))),
            given_up = report.count(|outcome| matches!(outcome, ItemOutcome::GivenUp { .. })),
            retry_count = report.retry_count,
            interrupted = report.interrupted,
            "the group was sent"
        ),
        Err(error) => {
            let error = error as &dyn std::error::Error;
            tracing::error!(upload, group, error, "the group could not be sent");
        }
    }
    if sent.lost {
        tracing::warn!(upload, group, "the lease on the group was lost: another may send it");
    }
}

fn refusal(group: &ItemGroup, busy: &GroupBusy) -> ProblemDetails {
    // Nobody waits for a part of a second.
    let rest = busy.remaining.as_secs().saturating_add(1);
    let what = format!("group {:?} is being sent by {busy}; nothing was sent", group.group);
    ProblemDetails::new(StatusCode::CONFLICT, what)
        .allowed(format!("another try once that has ended; if it was killed, in {rest} s"))
}

fn unable(what: impl Into<String>) -> ProblemDetails {
    ProblemDetails::new(StatusCode::SERVICE_UNAVAILABLE, what)
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
