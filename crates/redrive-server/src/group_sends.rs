//! Groups of uploads that this server sends.
//!
//! A send outlives its request and ends with the server: at shutdown it finishes the call in progress and releases the
//! lease of the group.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::http::StatusCode;
use jiff::Timestamp;
use redrive_engine::{
    EarlyItems, GroupBusy, GroupSent, GroupUpload, ItemOutcome, SendRefusal, Stop, Stopper,
};
use redrive_store::{ItemGroup, Operator};
use tokio::{sync::oneshot, task::JoinSet};

use crate::problem::ProblemDetails;

/// Concurrent sends.
const MAX_GROUP_SENDS: usize = 32;

/// Declared uploads by name. The error says why this server cannot send the upload.
pub type Uploads = BTreeMap<String, Result<GroupUpload, String>>;

/// The start of each send.
type ActiveSends = Arc<Mutex<HashMap<ItemGroup, Timestamp>>>;

pub(crate) struct GroupSends {
    uploads: Uploads,
    active: ActiveSends,
    tasks: Mutex<JoinSet<()>>,
    stopper: Stopper,
    stop: Stop,
}

/// Whether the lease of the group was acquired.
type LeaseOutcome = redrive_store::Result<Result<(), SendRefusal>>;

impl GroupSends {
    pub(crate) fn new(uploads: Uploads) -> Self {
        let (stopper, stop) = Stopper::new();
        Self { uploads, active: Arc::default(), tasks: Mutex::default(), stopper, stop }
    }

    pub(crate) fn is_declared(&self, upload: &str) -> bool {
        self.uploads.contains_key(upload)
    }

    pub(crate) fn undeclared(&self, upload: &str) -> ProblemDetails {
        let known: Vec<&str> = self.uploads.keys().map(String::as_str).collect();
        let problem = ProblemDetails::not_found(format!("no upload {upload:?} is declared"));
        if known.is_empty() { problem } else { problem.allowed(known.join(", ")) }
    }

    /// When this server started to send a group.
    pub(crate) fn since(&self, group: &ItemGroup) -> Option<Timestamp> {
        locked(&self.active).get(group).copied()
    }

    /// The items of a group that should wait, if this server can send the group.
    pub(crate) async fn early_items(
        &self,
        group: &ItemGroup,
    ) -> redrive_store::Result<Option<EarlyItems>> {
        match self.uploads.get(&group.upload) {
            Some(Ok(upload)) => upload.early_items(group).await,
            _ => Ok(None),
        }
    }

    /// Acquires the lease of a group and starts to send it. Returns the id of the worker.
    pub(crate) async fn start(
        &self,
        group: ItemGroup,
        by: Operator,
        now: bool,
    ) -> Result<String, ProblemDetails> {
        let upload = match self.uploads.get(&group.upload) {
            None => return Err(self.undeclared(&group.upload)),
            Some(Ok(upload)) => upload.clone(),
            Some(Err(why)) => {
                let what = format!("this server cannot send upload {:?}: {why}", group.upload);
                return Err(ProblemDetails::new(StatusCode::UNPROCESSABLE_ENTITY, what));
            }
        };
        let worker = upload.worker().0.clone();
        let (started, outcome) = oneshot::channel();
        let send = GroupSend {
            upload,
            group: group.clone(),
            by,
            now,
            active: Arc::clone(&self.active),
            stop: self.stop.clone(),
        };
        self.spawn(send, started)?;
        match outcome.await {
            Ok(Ok(Ok(()))) => Ok(worker),
            Ok(Ok(Err(SendRefusal::Busy(busy)))) => Err(busy_problem(&group, &busy)),
            Ok(Ok(Err(SendRefusal::Early(early)))) => {
                let what = format!("{early}; sending now spends an attempt; nothing was sent");
                Err(ProblemDetails::new(StatusCode::PRECONDITION_REQUIRED, what)
                    .allowed("the same request later, or with `now`: true"))
            }
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(unavailable("the server could not start the send")),
        }
    }

    /// Spawns a task, because the client may disconnect.
    fn spawn(
        &self,
        send: GroupSend,
        started: oneshot::Sender<LeaseOutcome>,
    ) -> Result<(), ProblemDetails> {
        let mut tasks = locked(&self.tasks);
        while tasks.try_join_next().is_some() {}
        if self.stop.is_stopped() {
            return Err(unavailable("the server is stopping; nothing was sent"));
        }
        if tasks.len() >= MAX_GROUP_SENDS {
            let what =
                format!("the server already sends {MAX_GROUP_SENDS} groups; nothing was sent");
            return Err(unavailable(what).retry_after(1));
        }
        tasks.spawn(send.run(started));
        Ok(())
    }

    /// Stops all sends and rejects new ones.
    pub(crate) fn stop(&self) {
        self.stopper.stop();
    }

    pub(crate) async fn join(&self) {
        let mut tasks = std::mem::take(&mut *locked(&self.tasks));
        while tasks.join_next().await.is_some() {}
    }
}

struct GroupSend {
    upload: GroupUpload,
    group: ItemGroup,
    by: Operator,
    now: bool,
    active: ActiveSends,
    stop: Stop,
}

impl GroupSend {
    async fn run(self, started: oneshot::Sender<LeaseOutcome>) {
        // A failed `send` on the channel means that the client disconnected.
        let upload = match self.upload.begin(&self.group, &self.by, self.now).await {
            Ok(Ok(upload)) => upload,
            Ok(Err(refusal)) => return started.send(Ok(Err(refusal))).unwrap_or_default(),
            Err(error) => return started.send(Err(error)).unwrap_or_default(),
        };
        let _active = ActiveSend::new(self.active, self.group.clone(), self.by.at);
        _ = started.send(Ok(Ok(())));
        let sent = upload.run(self.stop).await;
        log_end(&self.group, &sent);
    }
}

/// Registers a group as active until dropped.
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

fn log_end(group: &ItemGroup, sent: &GroupSent) {
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
            "sent the group"
        ),
        Err(error) => {
            let error = error as &dyn std::error::Error;
            tracing::error!(upload, group, error, "cannot send the group");
        }
    }
    if sent.lost {
        tracing::warn!(upload, group, "lost the lease of the group; another process may send it");
    }
}

fn busy_problem(group: &ItemGroup, busy: &GroupBusy) -> ProblemDetails {
    // Rounded up to whole seconds.
    let rest = busy.remaining.as_secs().saturating_add(1);
    let what = format!("group {:?} is being sent by {busy}; nothing was sent", group.group);
    ProblemDetails::new(StatusCode::CONFLICT, what)
        .allowed(format!("a new request after that send; if its process was killed, in {rest} s"))
}

fn unavailable(what: impl Into<String>) -> ProblemDetails {
    ProblemDetails::new(StatusCode::SERVICE_UNAVAILABLE, what)
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
