//! Sends several items at once: each lane takes the next item.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redrive_core::{Code, Failure, ItemId};
use tokio::sync::mpsc;

use crate::{
    Clock,
    traces::Traces,
    uploads::{
        ItemOutcome, ItemReport, UploadError, UploadOutcome, UploadReport, UploadRequest,
        content::CONTENT,
        item_gates::ItemGates,
        item_sender::{ItemSender, SendResult},
        item_supply::{ItemSupply, Opened},
        recorder::ItemResult,
    },
};

pub(super) struct Lanes {
    sender: Arc<ItemSender>,
    clock: Arc<dyn Clock>,
    recorder: mpsc::Sender<ItemResult>,
    supply: ItemSupply,
    gates: Option<ItemGates>,
    request: UploadRequest,
    traces: Traces,
    pass: Mutex<UploadPass>,
}

impl Lanes {
    pub(super) fn new(
        (sender, clock, recorder): (Arc<ItemSender>, Arc<dyn Clock>, mpsc::Sender<ItemResult>),
        supply: ItemSupply,
        gates: Option<ItemGates>,
        request: UploadRequest,
        traces: Traces,
    ) -> Self {
        Self { sender, clock, recorder, supply, gates, request, traces, pass: Mutex::default() }
    }

    /// Sends one item after the other until none is left.
    pub(super) async fn run(self: Arc<Self>) {
        while !self.is_over() {
            let next = tokio::select! {
                biased;
                next = self.next() => next,
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
            let mut result = ItemResult { item, failure: None, started_at, ended_at, gates: None };
            if let Some(gates) = &self.gates {
                result.gates = gates.passed(result.item.id, &sent);
            }
            let judged = self.pass().take(result, sent);
            for result in judged {
                if self.recorder.send(result).await.is_err() {
                    self.pass().is_over = true;
                }
            }
        }
    }

    async fn next(&self) -> Result<Option<Opened>, UploadError> {
        match &self.gates {
            Some(gates) => gates.next(&self.supply, || self.pass().is_over).await,
            None => self.supply.next().await,
        }
    }

    /// Whether no more items should be sent.
    pub(super) fn is_over(&self) -> bool {
        self.request.is_stopped() || self.pass().is_over
    }

    pub(super) fn pass(&self) -> MutexGuard<'_, UploadPass> {
        self.pass.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn end(&self) -> UploadPass {
        if let Some(gates) = &self.gates
            && let Err(error) = gates.give_back().await
        {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(
                error,
                "cannot give back the places of items behind gates; they are free when the group is released"
            );
        }
        let interrupted = self.request.is_stopped();
        UploadPass { interrupted, ..std::mem::take(&mut *self.pass()) }
    }
}

/// The result of one pass over the pending items.
#[derive(Default)]
pub(super) struct UploadPass {
    items: Vec<ItemReport>,
    judged: bool,
    /// Items without content. They are rejected once another item shows that the source of the content is available.
    missing: Vec<ItemResult>,
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

    /// Records what became of an item. Returns the results that are ready to be written.
    fn take(&mut self, result: ItemResult, sent: SendResult) -> Vec<ItemResult> {
        let failure = match sent {
            SendResult::Acknowledged => None,
            SendResult::Rejected(failure) => Some(failure),
            SendResult::Missing(failure) => {
                self.missing.push(ItemResult { failure: Some(failure), ..result });
                return if self.judged { self.reject_missing() } else { Vec::new() };
            }
            // Items with other folders may be sent.
            SendResult::NoFolder(failure) => {
                self.unreachable.get_or_insert(UploadError::Unreadable(failure));
                return self.not_sent(result.item.id);
            }
            SendResult::Refused(failure) => {
                self.refusal.get_or_insert(failure);
                return self.end_with(result.item.id);
            }
            SendResult::Unreachable(failure) => {
                self.unreachable.get_or_insert(UploadError::Unreachable(failure));
                return self.end_with(result.item.id);
            }
            SendResult::Unreadable(failure) => {
                self.unreachable.get_or_insert(UploadError::Unreadable(failure));
                return self.end_with(result.item.id);
            }
        };
        let mut judged = self.reject_missing();
        judged.push(self.judge(ItemResult { failure, ..result }));
        judged
    }

    /// Ends the pass: the other items would fail like this one.
    fn end_with(&mut self, item: ItemId) -> Vec<ItemResult> {
        self.is_over = true;
        self.not_sent(item)
    }

    /// The item is neither acknowledged nor rejected.
    fn not_sent(&mut self, item: ItemId) -> Vec<ItemResult> {
        self.items.push(ItemReport { item, outcome: ItemOutcome::NotSent });
        Vec::new()
    }

    fn judge(&mut self, result: ItemResult) -> ItemResult {
        self.judged = true;
        let outcome = result.failure.clone().map_or(ItemOutcome::Uploaded, ItemOutcome::Rejected);
        self.items.push(ItemReport { item: result.item.id, outcome });
        result
    }

    fn reject_missing(&mut self) -> Vec<ItemResult> {
        let missing = std::mem::take(&mut self.missing);
        missing.into_iter().map(|result| self.judge(result)).collect()
    }

    /// Decides about the items without content, after the last item: returns them as rejected if the source of the content
    /// was available to this group before, and leaves them pending otherwise.
    pub(super) fn end_missing(&mut self, available_before: bool) -> Vec<ItemResult> {
        let saw_all = !self.is_over && !self.interrupted;
        if saw_all && available_before {
            return self.reject_missing();
        }
        let missing = std::mem::take(&mut self.missing);
        let first = missing.first().and_then(|result| result.failure.as_ref());
        if let Some(first) = first.filter(|_| saw_all) {
            let (count, first) = (missing.len(), first.message());
            let message = format!("the content of all {count} pending items is missing; {first}");
            let failure = Failure::reported(None, Code::name(CONTENT), &message);
            self.unreachable.get_or_insert(UploadError::Unreadable(failure));
        }
        for result in missing {
            self.not_sent(result.item.id);
        }
        Vec::new()
    }

    pub(super) fn has_missing(&self) -> bool {
        !self.missing.is_empty()
    }

    pub(super) fn report(mut self) -> Result<UploadReport, UploadError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        match self.unreachable {
            Some(error) if !self.judged && self.refusal.is_none() => return Err(error),
            Some(error) => tracing::warn!("items stay pending: {error}"),
            None => {}
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
