//! Lets items through gates, a few at a time, before they are sent.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use redrive_core::Epoch;
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
    /// How many items are let through together.
    pub(super) batch: usize,
    pub(super) queue: Mutex<ItemQueue>,
}

#[derive(Default)]
pub(super) struct ItemQueue {
    waiting: VecDeque<Opened>,
    admitted: VecDeque<(Opened, GatePass, Instant)>,
    /// Whether the log says that the items wait.
    is_told: bool,
}

impl ItemGates {
    /// The next item that may be sent now; `None` if none is left.
    pub(super) async fn next(&self, supply: &ItemSupply) -> Result<Option<Opened>, UploadError> {
        loop {
            let mut queue = self.queue.lock().await;
            let Some((opened, pass, admitted_at)) = queue.admitted.pop_front() else {
                if !self.admit(&mut queue, supply).await? {
                    return Ok(None);
                }
                continue;
            };
            let window = match self.gates.start(&pass, &self.group, admitted_at) {
                Start::Now => return Ok(Some(opened)),
                Start::At(window) => window,
                Start::KeptBack => {
                    queue.waiting.push_back(opened);
                    continue;
                }
            };
            drop(queue);
            let wait = window.from.duration_since(self.store.now());
            tokio::time::sleep(wait.try_into().unwrap_or_default()).await;
            if self.store.now() <= window.until {
                return Ok(Some(opened));
            }
            self.queue.lock().await.waiting.push_back(opened);
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
            return Ok(false);
        }
        let store = &*self.store;
        if self.gates.is_closing(&self.group) {
            tokio::time::sleep(SHORTEST_REST).await;
            return Ok(true);
        }
        let admission = ItemAdmission {
            gates: self.gates.rules(store).await?,
            group: self.group.clone(),
            items: queue.waiting.iter().map(|(item, _)| item.id).collect(),
            epoch: self.epoch,
            owner: self.worker.clone(),
            now: self.clock.now(),
        };
        // Woken when items that were sent give back their places, or a gate changes.
        let mut wakes = self.store.wakes();
        let admitted_at = monotonic();
        let passes = store.admit_items(&admission).await?;
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

    /// What the result of an item that was sent tells the gates.
    pub(super) fn passed(&self, sent: &SendResult) -> Option<ItemPass> {
        match sent {
            SendResult::Acknowledged => {}
            SendResult::Rejected(failure) => self.gates.failed(&self.group, failure),
            SendResult::Refused(_)
            | SendResult::Unreachable(_)
            | SendResult::Unreadable(_)
            | SendResult::NoFolder(_)
            | SendResult::Missing(_) => return None,
        }
        let passed = self.gates.passed(&self.group)?;
        Some(ItemPass { passed, epoch: self.epoch })
    }
}
