//! Writes the results of items to the store, in batches.
//!
//! Results wait a moment for others, and while the batch before is written: a slow disk makes batches larger, not
//! the upload slower. Writes that fail are retried for a while, because a lost acknowledgement is an item that is
//! sent twice.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use redrive_core::{AttemptNumber, Failure, ItemEvent, ItemStatus, Unit};
use redrive_store::{
    AttemptEnd, AttemptOutcome, AttemptRecord, ItemAttempt, ItemMove, ItemPass, ItemRecord,
    MAX_PAGE, MinuteCounts, Presence, Result, Store, UnitKind, UnitRow, Written, attempt_counts,
};
use tokio::{
    sync::{Notify, mpsc},
    task::JoinHandle,
    time::Instant,
};

use crate::{
    traces::{TracedAttempt, Traces},
    uploads::{UploadEvent, UploadObserver},
    worker::store_retry::StoreRetry,
};
use redrive_retry::monotonic;

/// The most results in one write.
const MAX_BATCH: usize = 1_000;

/// How long a result waits for others. A commit costs as much as a hundred items.
const GATHER_TIME: Duration = Duration::from_millis(20);

/// The most results that wait to be written; lanes block beyond that.
const MAX_WAITING: usize = 4_096;

/// How often the counts of attempts are written.
const COUNTED_EVERY: Duration = Duration::from_secs(20);

/// How long writes are retried while the store is unavailable.
const MAX_STORE_WAIT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct ItemResult {
    pub(super) item: ItemRecord,
    pub(super) failure: Option<Failure>,
    pub(super) started_at: Timestamp,
    pub(super) ended_at: Timestamp,
    /// The gates that the item has passed.
    pub(super) gates: Option<ItemPass>,
}

pub(super) struct Recorder {
    sender: mpsc::Sender<ItemResult>,
    no_more: Arc<Notify>,
    writing: JoinHandle<Result<()>>,
}

impl Recorder {
    pub(super) fn start(
        store: Arc<dyn Store>,
        worker: String,
        observer: UploadObserver,
        traces: Traces,
    ) -> Self {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        let no_more = Arc::new(Notify::new());
        let gathered = ResultBatches { results: receiver, no_more: no_more.clone() };
        let writing = tokio::spawn(write_all(store, worker, (observer, traces), gathered));
        Self { sender, no_more, writing }
    }

    pub(super) fn sender(&self) -> mpsc::Sender<ItemResult> {
        self.sender.clone()
    }

    /// Waits until everything is written. All senders must be dropped.
    pub(super) async fn finish(self) -> Result<()> {
        drop(self.sender);
        self.no_more.notify_one();
        self.writing.await.unwrap_or_else(|error| {
            let doing = "writing the results of items".to_owned();
            Err(redrive_store::Error::Unavailable { doing, source: error.into() })
        })
    }
}

struct ResultBatches {
    results: mpsc::Receiver<ItemResult>,
    no_more: Arc<Notify>,
}

impl ResultBatches {
    /// Waits for the next batch, which is empty at the end.
    async fn next(&mut self, batch: &mut Vec<ItemResult>) {
        if self.results.recv_many(batch, MAX_BATCH).await == 0 || batch.len() == MAX_BATCH {
            return;
        }
        // The last batch does not wait. The notification is put back for the batches after this one.
        if tokio::time::timeout(GATHER_TIME, self.no_more.notified()).await.is_ok() {
            self.no_more.notify_one();
        }
        while batch.len() < MAX_BATCH
            && let Ok(result) = self.results.try_recv()
        {
            batch.push(result);
        }
    }
}

async fn write_all(
    store: Arc<dyn Store>,
    worker: String,
    (observer, traces): (UploadObserver, Traces),
    mut batches: ResultBatches,
) -> Result<()> {
    let (mut batch, mut counts) = (Vec::new(), UploadCounts::default());
    loop {
        batches.next(&mut batch).await;
        if batch.is_empty() {
            counts.write(&*store).await;
            return Ok(());
        }
        redrive_store::failpoint!("engine.upload.answered");
        let moves: Vec<ItemMove> = batch.iter().map(|result| result.to_move(&worker)).collect();
        let written = write(&*store, &moves).await?;
        redrive_store::failpoint!("engine.upload.recorded");
        for (result, written) in batch.drain(..).zip(written) {
            if written == Written::Stale {
                let item = result.item.id.0;
                tracing::warn!(item, "ignored the result of an item that was no longer pending");
            }
            if written == Written::Applied {
                counts.add(&result);
                traces.record(|| result.attempt(&worker));
            }
            observer(match &result.failure {
                None => UploadEvent::Uploaded(&result.item),
                Some(failure) => UploadEvent::Rejected(&result.item, failure),
            });
        }
        if counts.is_due() {
            counts.write(&*store).await;
        }
    }
}

/// The attempts since the last write of counts. All items of a recorder belong to one upload.
#[derive(Default)]
struct UploadCounts {
    upload: String,
    minutes: MinuteCounts,
    written: Option<Instant>,
    now: Timestamp,
}

impl UploadCounts {
    fn add(&mut self, result: &ItemResult) {
        let ItemResult { item, started_at, ended_at, .. } = result;
        if self.upload.is_empty() {
            self.upload.clone_from(&item.group.upload);
        }
        let outcome = match result.failure {
            None => AttemptOutcome::Success,
            Some(_) => AttemptOutcome::Retrying,
        };
        self.now = *ended_at;
        self.minutes.add(AttemptEnd { outcome, started_at: *started_at, ended_at: *ended_at });
    }

    fn is_due(&mut self) -> bool {
        self.written.get_or_insert_with(monotonic).elapsed() >= COUNTED_EVERY
    }

    /// Writes the counts, or keeps them for the next time. An upload does not fail because of them.
    async fn write(&mut self, store: &dyn Store) {
        self.written = None;
        let counts = attempt_counts([(UnitKind::Item, self.upload.as_str(), &self.minutes)]);
        if counts.is_empty() {
            return;
        }
        match store.report(&Presence::NoWorker, &counts, self.now).await {
            Ok(()) => self.minutes = MinuteCounts::default(),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::debug!(error, "cannot write the counts of attempts");
            }
        }
    }
}

async fn write(store: &dyn Store, moves: &[ItemMove]) -> Result<Vec<Written>> {
    let until = monotonic() + MAX_STORE_WAIT;
    let mut retry = StoreRetry::new("upload", "acknowledgements", moves.len());
    loop {
        match try_write(store, moves).await {
            Err(error) if error.is_transient() && monotonic() < until => {
                retry.wait_after(&error).await;
            }
            answer => return answer,
        }
    }
}

/// Idempotent: results that were written before are not written twice.
async fn try_write(store: &dyn Store, moves: &[ItemMove]) -> Result<Vec<Written>> {
    let mut written = store.move_items(moves).await?;
    for (step, written) in moves.iter().zip(&mut written) {
        if *written == Written::Stale && step.event == ItemEvent::RejectAttempt {
            *written = resolve_stale(store, step).await?;
        }
    }
    Ok(written)
}

/// The store refused a rejection, because its attempt is not the next one. Either the rejection was written
/// before and the response was lost, or another process sent the item meanwhile. The ledger decides.
async fn resolve_stale(store: &dyn Store, step: &ItemMove) -> Result<Written> {
    let unit = UnitRow::new(UnitKind::Item, step.id.0);
    let Some(attempt) = &step.attempt else { return Ok(Written::Stale) };
    // Times are stored in microseconds.
    let started = attempt.started_at.as_microsecond();
    let is_this = |row: &AttemptRecord| {
        row.worker == attempt.worker && row.started_at.as_microsecond() == started
    };
    loop {
        let ledger = store.attempts_of(&unit, AttemptNumber(0), MAX_PAGE).await?;
        if ledger.iter().any(is_this) {
            return Ok(Written::Applied);
        }
        let item = store.items_by_id(&[step.id]).await?.pop();
        let pending = item.filter(|item| item.status == ItemStatus::Pending);
        let Some(item) = pending else { return Ok(Written::Stale) };
        let attempt = ItemAttempt { after: Some(item.last_attempt), ..attempt.clone() };
        let again = ItemMove { attempt: Some(attempt), ..step.clone() };
        if store.move_items(&[again]).await? == [Written::Applied] {
            return Ok(Written::Applied);
        }
    }
}

impl ItemResult {
    /// The attempt has the next number, because no other process sends items of the group.
    fn attempt(&self, worker: &str) -> Option<TracedAttempt> {
        let number = AttemptNumber(self.item.last_attempt.0.saturating_add(1));
        Some(TracedAttempt {
            unit: Unit::Item(self.item.id),
            place: self.item.group.upload.clone(),
            details: vec![
                ("upload", self.item.group.upload.clone()),
                ("group", self.item.group.group.clone()),
                ("item", self.item.name.clone()),
            ],
            row: self.to_move(worker).ledger_row(number)?,
        })
    }

    fn to_move(&self, worker: &str) -> ItemMove {
        let reason = self.failure.as_ref().map(|failure| failure.message().clone());
        let event = match self.failure {
            None => ItemEvent::Acknowledge,
            Some(_) => ItemEvent::RejectAttempt,
        };
        ItemMove {
            rejection_reason: reason,
            attempt: Some(ItemAttempt {
                gates: self.gates.clone(),
                started_at: self.started_at,
                failure: self.failure.clone(),
                worker: worker.to_owned(),
                // An acknowledgement counts, even if another process sent the item meanwhile.
                after: self.failure.as_ref().map(|_| self.item.last_attempt),
            }),
            if_sha256: Some(self.item.sha256.clone()),
            ..ItemMove::new(self.item.id, event, self.ended_at)
        }
    }
}
