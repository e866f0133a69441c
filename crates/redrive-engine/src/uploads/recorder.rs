//! Writing what became of items, in batches.
//!
//! What was judged waits a moment for company, and while the batch before is written: a slow disk makes
//! batches larger and the upload no slower. What the store cannot take for the moment is kept and tried
//! again for a while: an acknowledgement that is lost is an item that is sent twice.

use std::{sync::Arc, time::Duration};

use redrive_core::{AttemptNumber, Failure, ItemEvent, ItemStatus, Unit};
use redrive_store::{
    AttemptRecord, ItemAttempt, ItemMove, ItemRecord, MAX_PAGE, Result, Store, UnitKind, UnitRow,
    Written,
};
use tokio::{
    sync::{Notify, mpsc},
    task::JoinHandle,
};

use crate::{
    traces::{TracedAttempt, Traces},
    uploads::{UploadEvent, UploadObserver},
    worker::finisher::Patience,
};
use redrive_retry::monotonic;

/// Items that are written about together at most.
const MAX_BATCH: usize = 1_000;

/// How long what was judged waits for company. A commit costs as much as a hundred items.
const GATHER_TIME: Duration = Duration::from_millis(20);

/// Results that may wait to be written before no more is sent.
const MAX_WAITING: usize = 4_096;

/// How long a store that does not answer is waited for.
const MAX_STORE_WAIT: Duration = Duration::from_secs(60);

/// An item that was judged.
#[derive(Debug)]
pub(super) struct ItemResult {
    pub(super) item: ItemRecord,
    /// Why it was rejected, if it was.
    pub(super) failure: Option<Failure>,
    pub(super) started_at: jiff::Timestamp,
    pub(super) ended_at: jiff::Timestamp,
}

/// Takes what was judged and writes it.
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
        let gathered = ResultBatches { judged: receiver, no_more: no_more.clone() };
        let writing = tokio::spawn(write_all(store, worker, (observer, traces), gathered));
        Self { sender, no_more, writing }
    }

    /// Where what was judged goes.
    pub(super) fn sender(&self) -> mpsc::Sender<ItemResult> {
        self.sender.clone()
    }

    /// Waits until everything is written. Nobody may send any more.
    pub(super) async fn finish(self) -> Result<()> {
        drop(self.sender);
        self.no_more.notify_one();
        self.writing.await.unwrap_or_else(|error| {
            let doing = "writing what became of items".to_owned();
            Err(redrive_store::Error::Unavailable { doing, source: error.into() })
        })
    }
}

/// Batches of what was judged.
struct ResultBatches {
    judged: mpsc::Receiver<ItemResult>,
    no_more: Arc<Notify>,
}

impl ResultBatches {
    /// Waits for the next batch. It is empty when there are no more.
    async fn next(&mut self, batch: &mut Vec<ItemResult>) {
        if self.judged.recv_many(batch, MAX_BATCH).await == 0 || batch.len() == MAX_BATCH {
            return;
        }
        // The last batch waits for nobody. Whoever is told that it is the last finds it so ever after.
        if tokio::time::timeout(GATHER_TIME, self.no_more.notified()).await.is_ok() {
            self.no_more.notify_one();
        }
        while batch.len() < MAX_BATCH
            && let Ok(judged) = self.judged.try_recv()
        {
            batch.push(judged);
        }
    }
}

async fn write_all(
    store: Arc<dyn Store>,
    worker: String,
    (observer, traces): (UploadObserver, Traces),
    mut judged: ResultBatches,
) -> Result<()> {
    let mut batch = Vec::new();
    loop {
        judged.next(&mut batch).await;
        if batch.is_empty() {
            return Ok(());
        }
        redrive_store::failpoint!("engine.upload.answered");
        let moves: Vec<ItemMove> = batch.iter().map(|judged| judged.to_move(&worker)).collect();
        let written = write(&*store, &moves).await?;
        redrive_store::failpoint!("engine.upload.recorded");
        for (judged, written) in batch.drain(..).zip(written) {
            if written == Written::Stale {
                let item = judged.item.id.0;
                tracing::warn!(item, "an item was judged that was no longer pending");
            }
            if written == Written::Applied {
                traces.record(|| judged.attempt(&worker));
            }
            observer(match &judged.failure {
                None => UploadEvent::Uploaded(&judged.item),
                Some(failure) => UploadEvent::Rejected(&judged.item, failure),
            });
        }
    }
}

async fn write(store: &dyn Store, moves: &[ItemMove]) -> Result<Vec<Written>> {
    let until = monotonic() + MAX_STORE_WAIT;
    let mut patience = Patience::new("upload", "acknowledgements", moves.len());
    loop {
        match try_write(store, moves).await {
            Err(error) if error.is_transient() && monotonic() < until => {
                patience.after(&error).await;
            }
            answer => return answer,
        }
    }
}

/// May be done again: what was written before is not written twice.
async fn try_write(store: &dyn Store, moves: &[ItemMove]) -> Result<Vec<Written>> {
    let mut written = store.move_items(moves).await?;
    for (step, written) in moves.iter().zip(&mut written) {
        if *written == Written::Stale && step.event == ItemEvent::RejectAttempt {
            *written = resolve_stale(store, step).await?;
        }
    }
    Ok(written)
}

/// A rejection was refused: its attempt is not the next one any more. Either it was written before, and the
/// answer to that was lost, or somebody else sent the item meanwhile. The ledger tells.
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
    /// Nobody else sends items of the group meanwhile, so its number is the next.
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
        ItemMove {
            id: self.item.id,
            event: match self.failure {
                None => ItemEvent::Acknowledge,
                Some(_) => ItemEvent::RejectAttempt,
            },
            rejection_reason: reason,
            at: self.ended_at,
            attempt: Some(ItemAttempt {
                started_at: self.started_at,
                failure: self.failure.clone(),
                worker: worker.to_owned(),
                // What is acknowledged is so, whoever sent it meanwhile.
                after: self.failure.as_ref().map(|_| self.item.last_attempt),
            }),
            journal: None,
        }
    }
}
