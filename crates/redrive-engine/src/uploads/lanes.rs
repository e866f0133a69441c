//! Sends several items at once: each lane takes the next item.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redrive_core::{Failure, ItemId};
use tokio::sync::mpsc;

use crate::{
    Clock,
    traces::Traces,
    uploads::{
        ItemOutcome, ItemReport, UploadError, UploadOutcome, UploadReport, UploadRequest,
        item_sender::{ItemSender, SendResult},
        item_supply::ItemSupply,
        recorder::ItemResult,
    },
};

pub(super) struct Lanes {
    sender: Arc<ItemSender>,
    clock: Arc<dyn Clock>,
    recorder: mpsc::Sender<ItemResult>,
    supply: ItemSupply,
    request: UploadRequest,
    traces: Traces,
    pass: Mutex<UploadPass>,
}

impl Lanes {
    pub(super) fn new(
        (sender, clock, recorder): (Arc<ItemSender>, Arc<dyn Clock>, mpsc::Sender<ItemResult>),
        supply: ItemSupply,
        request: UploadRequest,
        traces: Traces,
    ) -> Self {
        Self { sender, clock, recorder, supply, request, traces, pass: Mutex::default() }
    }

    /// Sends one item after the other until none is left.
    pub(super) async fn run(self: Arc<Self>) {
        while !self.is_over() {
            let next = tokio::select! {
                biased;
                next = self.supply.next() => next,
                () = self.request.stopped() => return,
            };
            let (item, content) = match next {
                Ok(Some(opened)) => opened,
                Ok(None) => return,
                Err(error) => return self.pass().broken(error),
            };
            let started_at = self.clock.now();
            let sent = self.sender.send(&item, content, &self.traces).await;
            let ended_at = self.clock.now();
            let Some(failure) = self.pass().take(item.id, sent) else { continue };
            let judged = ItemResult { item, failure, started_at, ended_at };
            if self.recorder.send(judged).await.is_err() {
                self.pass().is_over = true;
            }
        }
    }

    /// Whether no more items should be sent.
    pub(super) fn is_over(&self) -> bool {
        self.request.is_stopped() || self.pass().is_over
    }

    pub(super) fn pass(&self) -> MutexGuard<'_, UploadPass> {
        self.pass.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn end(&self) -> UploadPass {
        let interrupted = self.request.is_stopped();
        UploadPass { interrupted, ..std::mem::take(&mut *self.pass()) }
    }
}

/// The result of one pass over the pending items.
#[derive(Default)]
pub(super) struct UploadPass {
    items: Vec<ItemReport>,
    judged: bool,
    /// The first failure to reach the server, or the content.
    unreachable: Option<UploadError>,
    refusal: Option<Failure>,
    /// The error that ended the pass.
    broken: Option<UploadError>,
    interrupted: bool,
    /// Whether no more items should be sent.
    pub(super) is_over: bool,
}

impl UploadPass {
    /// A pass that was stopped before it began.
    pub(super) fn interrupted() -> Self {
        Self { interrupted: true, ..Self::default() }
    }

    fn broken(&mut self, error: UploadError) {
        self.broken.get_or_insert(error);
        self.is_over = true;
    }

    /// Records the result of an item. Returns `Some` if the item was acknowledged or rejected, with the failure
    /// of a rejection.
    fn take(&mut self, item: ItemId, sent: SendResult) -> Option<Option<Failure>> {
        let (failure, outcome) = match sent {
            SendResult::Acknowledged => (None, ItemOutcome::Uploaded),
            SendResult::Rejected(failure) => {
                (Some(failure.clone()), ItemOutcome::Rejected(failure))
            }
            SendResult::Refused(failure) => {
                self.refusal.get_or_insert(failure);
                return self.end_with(item);
            }
            SendResult::Unreachable(failure) => {
                self.unreachable.get_or_insert(UploadError::Unreachable(failure));
                return self.end_with(item);
            }
            SendResult::Unreadable(failure) => {
                self.unreachable.get_or_insert(UploadError::Unreadable(failure));
                return self.end_with(item);
            }
        };
        self.judged = true;
        self.items.push(ItemReport { item, outcome });
        Some(failure)
    }

    /// Ends the pass: the other items would fail like this one, which is neither acknowledged nor rejected.
    fn end_with<T>(&mut self, item: ItemId) -> Option<T> {
        self.is_over = true;
        self.items.push(ItemReport { item, outcome: ItemOutcome::NotSent });
        None
    }

    pub(super) fn report(mut self) -> Result<UploadReport, UploadError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        match self.unreachable {
            Some(error) if !self.judged && self.refusal.is_none() => return Err(error),
            _ => {}
        }
        self.items.sort_unstable_by_key(|report| report.item);
        let all = self.items.iter().all(|report| report.outcome == ItemOutcome::Uploaded);
        let outcome = match self.refusal {
            Some(_) if !self.judged => UploadOutcome::Failure,
            _ if all && !self.interrupted && !self.is_over => UploadOutcome::Success,
            _ => UploadOutcome::Partial,
        };
        let report = UploadReport::new(outcome, self.items);
        Ok(UploadReport { refusal: self.refusal, interrupted: self.interrupted, ..report })
    }
}
