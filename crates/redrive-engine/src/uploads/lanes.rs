//! Sending several items at once: lanes that each take the next one.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use redrive_core::{Failure, ItemId};
use redrive_store::ItemRecord;
use tokio::sync::mpsc;

use crate::{
    Clock,
    uploads::{
        Chunks, ContentError, ItemOutcome, ItemReport, UploadError, UploadOutcome, UploadReport,
        UploadRequest,
        recorder::Judged,
        sending::{Sender, Sent},
    },
};

/// An item, and the beginning of its content.
pub(super) type Opened = (ItemRecord, Result<Chunks, ContentError>);

/// What the lanes share.
pub(super) struct Lanes {
    sender: Arc<Sender>,
    clock: Arc<dyn Clock>,
    recorder: mpsc::Sender<Judged>,
    queue: tokio::sync::Mutex<mpsc::Receiver<Opened>>,
    request: UploadRequest,
    pass: Mutex<Pass>,
}

impl Lanes {
    pub(super) fn new(
        (sender, clock, recorder): (Arc<Sender>, Arc<dyn Clock>, mpsc::Sender<Judged>),
        queue: mpsc::Receiver<Opened>,
        request: UploadRequest,
    ) -> Self {
        Self { sender, clock, recorder, queue: queue.into(), request, pass: Mutex::default() }
    }

    /// Sends one item after the other, until there are no more.
    pub(super) async fn run(self: Arc<Self>) {
        loop {
            let next = self.queue.lock().await.recv().await;
            let Some((item, content)) = next else { return };
            if self.is_over() {
                self.pass().not_sent(item.id);
                continue;
            }
            let started_at = self.clock.now();
            let sent = self.sender.send(&item, content).await;
            let ended_at = self.clock.now();
            let Some(failure) = self.pass().take(item.id, sent) else { continue };
            let judged = Judged { item, failure, started_at, ended_at };
            if self.recorder.send(judged).await.is_err() {
                self.pass().is_over = true;
            }
        }
    }

    /// Whether there is no use in sending more.
    pub(super) fn is_over(&self) -> bool {
        self.request.is_stopped() || self.pass().is_over
    }

    pub(super) fn pass(&self) -> MutexGuard<'_, Pass> {
        self.pass.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it came to.
    pub(super) fn end(&self) -> Pass {
        let interrupted = self.request.is_stopped();
        Pass { interrupted, ..std::mem::take(&mut *self.pass()) }
    }
}

/// One time through the pending items.
#[derive(Default)]
pub(super) struct Pass {
    items: BTreeMap<ItemId, ItemOutcome>,
    judged: bool,
    unreachable: Option<Failure>,
    refusal: Option<Failure>,
    interrupted: bool,
    /// Whether there is no use in sending more.
    pub(super) is_over: bool,
}

impl Pass {
    /// One that was told to stop before it began.
    pub(super) fn interrupted() -> Self {
        Self { interrupted: true, ..Self::default() }
    }

    pub(super) fn not_sent(&mut self, item: ItemId) {
        self.items.insert(item, ItemOutcome::NotSent);
    }

    /// Takes what became of an item. If it was judged, says why it was rejected, if it was.
    fn take(&mut self, item: ItemId, sent: Sent) -> Option<Option<Failure>> {
        let (failure, outcome) = match sent {
            Sent::Acknowledged => (None, ItemOutcome::Uploaded),
            Sent::Rejected(failure) => (Some(failure.clone()), ItemOutcome::Rejected(failure)),
            Sent::Refused(failure) => {
                self.refusal.get_or_insert(failure);
                self.is_over = true;
                self.not_sent(item);
                return None;
            }
            Sent::Unreachable(failure) => {
                self.unreachable.get_or_insert(failure);
                self.is_over = true;
                self.not_sent(item);
                return None;
            }
        };
        self.judged = true;
        self.items.insert(item, outcome);
        Some(failure)
    }

    pub(super) fn report(self) -> Result<UploadReport, UploadError> {
        match (self.judged, self.unreachable) {
            (false, Some(failure)) if self.refusal.is_none() => {
                return Err(UploadError::Unreachable(failure));
            }
            _ => {}
        }
        let all = self.items.values().all(|outcome| *outcome == ItemOutcome::Uploaded);
        let outcome = match self.refusal {
            Some(_) if !self.judged => UploadOutcome::Failure,
            _ if all && !self.interrupted && !self.is_over => UploadOutcome::Success,
            _ => UploadOutcome::Partial,
        };
        let items = self.items.into_iter();
        let items = items.map(|(item, outcome)| ItemReport { item, outcome }).collect();
        let report = UploadReport::new(outcome, items);
        Ok(UploadReport { refusal: self.refusal, interrupted: self.interrupted, ..report })
    }
}
