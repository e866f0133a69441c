//! Lets items through gates, a few at a time, before they are sent.

use std::{
    collections::VecDeque,
    sync::{Arc, MutexGuard, PoisonError},
    time::Duration,
};

use redrive_core::{Epoch, ItemId};
use redrive_retry::monotonic;
use redrive_store::{GatePass, ItemAdmission, ItemPass, Store, WorkerId};
use tokio::{sync::Mutex, time::Instant};

use crate::{
    Clock,
    gates::work_gates::{Start, WorkGates},
    uploads::{
        UploadError,
        item_sender::SendResult,
        item_supply::{ItemSupply, Opened},
    },
};

/// The rest between two looks at gates that keep all items back. A busy store wakes often.
const SHORTEST_REST: Duration = Duration::from_millis(10);
const LONGEST_REST: Duration = Duration::from_secs(1);

pub(super) struct ItemGates {
    pub(super) gates: WorkGates,
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) worker: WorkerId,
    pub(super) group: String,
    /// Of the lease on the group.
    pub(super) epoch: Epoch,
    /// How many items are let through together, and sent at once.
    pub(super) batch: usize,
    pub(super) queue: Mutex<ItemQueue>,
    /// Items that were let through, and whose ends say nothing about the service.
    pub(super) unsent: std::sync::Mutex<Vec<ItemId>>,
}

#[derive(Default)]
pub(super) struct ItemQueue {
    waiting: VecDeque<Opened>,
    admitted: VecDeque<(Opened, GatePass, Instant)>,
    /// Whether the log says that the items wait.
    is_told: bool,
}

impl ItemGates {
    /// The next item that may be sent now; `None` if none is left, or no more should be sent.
    pub(super) async fn next(
        &self,
        supply: &ItemSupply,
        is_over: impl Fn() -> bool,
    ) -> Result<Option<Opened>, UploadError> {
        while !is_over() {
            let mut queue = self.queue.lock().await;
            let Some((opened, pass, admitted_at)) = queue.admitted.pop_front() else {
                if !self.admit(&mut queue, supply).await? {
                    return Ok(None);
                }
                continue;
            };
            drop(queue);
            if self.await_start(&pass, admitted_at).await && !is_over() {
                return Ok(Some(opened));
            }
            self.queue.lock().await.waiting.push_back(opened);
        }
        Ok(None)
    }

    /// Waits for the start time of an item. Returns whether the item may be sent.
    async fn await_start(&self, pass: &GatePass, admitted_at: Instant) -> bool {
        let start = || self.gates.start(pass, &self.group, admitted_at);
        match start() {
            Start::Now => true,
            Start::KeptBack => false,
            Start::At(window) => {
                let wait = window.from.duration_since(self.store.now());
                tokio::time::sleep(wait.try_into().unwrap_or_default()).await;
                self.store.now() <= window.until && start() != Start::KeptBack
            }
        }
    }

    /// Lets further items through, or rests. Returns whether any are left.
    async fn admit(&self, queue: &mut ItemQueue, supply: &ItemSupply) -> Result<bool, UploadError> {
        while queue.waiting.len() < self.batch
            && let Some(opened) = supply.next().await?
        {
            queue.waiting.push_back(opened);
        }
        if queue.waiting.is_empty() {
            self.give_back_all(queue).await?;
            return Ok(false);
        }
        let store = &*self.store;
        if self.gates.is_closing(&self.group) {
            tokio::time::sleep(SHORTEST_REST).await;
            return Ok(true);
        }
        // Woken when items that were sent give back their places, or a gate changes.
        let mut wakes = self.store.wakes();
        let admitted_at = monotonic();
        let items = queue.waiting.iter().map(|(item, _)| item.id).collect();
        let passes = self.exchange(items, queue.waiting.len()).await?;
        self.gates.note(store, std::iter::once(self.group.as_str())).await;
        if passes.is_empty() {
            let now = self.clock.now();
            let due = self.gates.next_due(None, true, now).map(|due| due.duration_since(now));
            let rest = due.and_then(|rest| rest.try_into().ok()).unwrap_or(LONGEST_REST);
            if let Some(gate) = self.gates.first_shut(&self.group)
                && !std::mem::replace(&mut queue.is_told, true)
            {
                tracing::info!(group = self.group, gate, "items wait for a gate");
            }
            tokio::time::sleep(SHORTEST_REST).await;
            let rest = rest.clamp(SHORTEST_REST, LONGEST_REST);
            let _ = tokio::time::timeout(rest, wakes.changed()).await;
        } else {
            queue.is_told = false;
        }
        let admitted = queue.waiting.drain(..passes.len().min(queue.waiting.len()));
        let admitted = admitted.zip(passes).map(|(opened, pass)| (opened, pass, admitted_at));
        queue.admitted.extend(admitted);
        Ok(true)
    }

    /// Gives back the places of items that were let through and are not sent.
    pub(super) async fn give_back(&self) -> Result<(), UploadError> {
        self.give_back_all(&mut *self.queue.lock().await).await
    }

    async fn give_back_all(&self, queue: &mut ItemQueue) -> Result<(), UploadError> {
        let ItemQueue { waiting, admitted, .. } = std::mem::take(queue);
        let items = waiting.into_iter().chain(admitted.into_iter().map(|(opened, ..)| opened));
        self.exchange(items.map(|(item, _)| item.id).collect(), 0).await.map(drop)
    }

    /// Gives back the places of items and of those that were not sent, and lets the first of them through.
    async fn exchange(
        &self,
        mut items: Vec<ItemId>,
        limit: usize,
    ) -> Result<Vec<GatePass>, UploadError> {
        items.append(&mut self.unsent());
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.clock.now();
        let admission = ItemAdmission {
            gates: self.gates.rules(&*self.store, now).await?,
            group: self.group.clone(),
            items,
            limit: u32::try_from(limit).unwrap_or(u32::MAX),
            epoch: self.epoch,
            owner: self.worker.clone(),
            now,
        };
        Ok(self.store.admit_items(&admission).await?)
    }

    fn unsent(&self) -> MutexGuard<'_, Vec<ItemId>> {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the result of an item tells the gates that let it through. One that tells them nothing gives back its place.
    pub(super) fn passed(&self, item: ItemId, sent: &SendResult) -> Option<ItemPass> {
        match sent {
            SendResult::Acknowledged => {}
            SendResult::Rejected(failure) => self.gates.failed(&self.group, failure),
            SendResult::Refused(_)
            | SendResult::Unreachable(_)
            | SendResult::Unreadable(_)
            | SendResult::NoFolder(_)
            | SendResult::Missing(_) => {
                self.unsent().push(item);
                return None;
            }
        }
        let passed = self.gates.passed(&self.group)?;
        let at_once = u32::try_from(self.batch).unwrap_or(u32::MAX);
        Some(ItemPass { passed, epoch: self.epoch, at_once })
    }
}
