//! The group of items of a world: who sends them, who receives them, and what must be true of them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use redrive_core::{Cause, Failure, ItemEvent, ItemId, ItemStatus, Policy, PolicySpec, Preset};
use redrive_engine::{
    Clock, GroupLease, ItemOutcome, ItemReport, RetrySettings, RetryingUploader, Stopper,
    UploadError, UploadOutcome, UploadReport, UploadRequest, Uploader,
};
use redrive_store::{
    AddedItem, ItemAttempt, ItemGroup, ItemMove, ItemRecord, JournalFilter, LedgerPlace, MAX_PAGE,
    NewItem, Selection, Store, UnitKind, WorkerId,
};
use tokio::task::JoinHandle;

use crate::simulator::{
    chance::Chance,
    clock::SimClock,
    gate::Gate,
    ground::Ground,
    log::{Event, What},
    weather::Weather,
};

pub(crate) const LEASE: Duration = Duration::from_secs(10);
const MAX_ITEM_ATTEMPTS: u32 = 4;
const MAX_RETRIES: u32 = 3;

fn group() -> ItemGroup {
    ItemGroup { upload: "tiles".to_owned(), group: "g".to_owned() }
}

/// What the receiver saw, and what was known when it did.
#[derive(Debug, Default)]
struct Seen {
    acknowledged: u32,
    rejected: u32,
    /// Sent although the store said already that it was acknowledged.
    needless: u32,
    /// Sent although the one who sent it had counted it to the end.
    overspent: u32,
    last_sender: String,
}

/// The receiver: a mood for every item, and the store's truth beside it.
struct Receiver {
    truth: Arc<dyn Store>,
    chance: Mutex<Chance>,
    hopeless: Vec<ItemId>,
    seen: Mutex<BTreeMap<ItemId, Seen>>,
}

impl Receiver {
    async fn receive(&self, item: ItemId, sender: &str) -> Result<(), Failure> {
        let known = self.truth.items_by_id(&[item]).await.unwrap().remove(0);
        let good = !self.hopeless.contains(&item) && self.chance.lock().unwrap().one_in(2);
        let mut seen = self.seen.lock().unwrap();
        let seen = seen.entry(item).or_default();
        if seen.last_sender == sender {
            seen.needless += u32::from(known.status != ItemStatus::Pending);
            seen.overspent += u32::from(known.upload_attempts >= MAX_ITEM_ATTEMPTS);
        }
        seen.last_sender = sender.to_owned();
        if good {
            seen.acknowledged += 1;
            return Ok(());
        }
        seen.rejected += 1;
        Err(Failure::http(503, None, "not in the mood"))
    }
}

/// Sends one item after the other, and writes down what became of each at once.
struct Sender {
    store: Arc<dyn Store>,
    receiver: Arc<Receiver>,
    clock: Arc<SimClock>,
    name: String,
}

#[async_trait]
impl Uploader for Sender {
    async fn upload_pending(&self, request: &UploadRequest) -> Result<UploadReport, UploadError> {
        let pending = self.store.pending_items(&request.group, ItemId(0), 1_000).await?;
        let mut items = Vec::new();
        for item in pending {
            if request.is_stopped() {
                items.push(ItemReport { item: item.id, outcome: ItemOutcome::NotSent });
                continue;
            }
            let started_at = self.clock.now();
            tokio::time::sleep(Duration::from_millis(200)).await;
            let failure = self.receiver.receive(item.id, &self.name).await.err();
            let event = match failure {
                None => ItemEvent::Acknowledge,
                Some(_) => ItemEvent::RejectAttempt,
            };
            let step = ItemMove {
                rejection_reason: failure.as_ref().map(|failure| failure.message().clone()),
                attempt: Some(ItemAttempt {
                    gates: None,
                    started_at,
                    failure: failure.clone(),
                    worker: self.name.clone(),
                    after: None,
                }),
                ..ItemMove::new(item.id, event, self.clock.now())
            };
            let _ = self.store.move_items(&[step]).await?;
            let outcome = failure.map_or(ItemOutcome::Uploaded, ItemOutcome::Rejected);
            items.push(ItemReport { item: item.id, outcome });
        }
        let all = items.iter().all(|item| item.outcome == ItemOutcome::Uploaded);
        let outcome = if all { UploadOutcome::Success } else { UploadOutcome::Partial };
        let report = UploadReport::new(outcome, items);
        Ok(UploadReport { interrupted: request.is_stopped(), ..report })
    }

    async fn enumerate_pending(
        &self,
        group: &ItemGroup,
        after: ItemId,
        limit: u32,
    ) -> Result<Vec<ItemRecord>, UploadError> {
        Ok(self.store.pending_items(group, after, limit).await?)
    }

    async fn confirm_ready(&self) -> Result<(), UploadError> {
        Ok(())
    }
}

/// The group, and those after it.
pub(crate) struct SimulatedItems {
    receiver: Arc<Receiver>,
    /// Who holds the group at the moment, as the processes themselves see it.
    holders: Arc<Mutex<Vec<String>>>,
    overlaps: Arc<Mutex<u32>>,
    /// Who lost the group while it held it.
    losers: Arc<Mutex<Vec<String>>>,
}

/// A process that uploads the group once, as the command does.
pub(crate) struct Upload {
    gate: Arc<Gate>,
    pub(crate) weather: Arc<Weather>,
    pub(crate) task: JoinHandle<()>,
}

impl Upload {
    pub(crate) async fn kill(self) {
        self.gate.kill();
        self.task.abort();
        _ = self.task.await;
    }
}

impl SimulatedItems {
    pub(crate) async fn new(ground: &mut Ground) -> Self {
        let count = ground.chance.between(1, 12);
        let new: Vec<NewItem> = (0..count)
            .map(|n| NewItem {
                group: group(),
                name: format!("tile{n}"),
                content_url: "file:/x".to_owned(),
                size_bytes: 1,
                sha256: "ab".repeat(32),
            })
            .collect();
        let added = ground.store.add_items(&new, &ground.by("ada")).await.unwrap();
        let ids = added.into_iter().map(|added| match added {
            AddedItem::Accepted(id) => id,
            other => panic!("{other:?}"),
        });
        let hopeless = ids.filter(|_| ground.chance.one_in(4)).collect();
        let receiver = Receiver {
            truth: ground.store.clone(),
            chance: ground.chance.fork().into(),
            hopeless,
            seen: Mutex::default(),
        };
        let (holders, overlaps, losers) = Default::default();
        Self { receiver: Arc::new(receiver), holders, overlaps, losers }
    }

    pub(crate) fn start_upload(&self, ground: &mut Ground) -> Upload {
        let who = ground.newcomer("u-");
        let store: Arc<dyn Store> = Arc::new(ground.way(&who));
        let (clock, receiver, name) = (ground.clock.clone(), self.receiver.clone(), who.id);
        let sender =
            Sender { store: store.clone(), receiver, clock: clock.clone(), name: name.clone() };
        let spec = PolicySpec { max_attempts: Some(MAX_ITEM_ATTEMPTS), ..Preset::Upload.spec() };
        let settings = RetrySettings::new(Policy::new(spec).unwrap(), MAX_RETRIES);
        let uploader = RetryingUploader::new(sender, store.clone(), settings, name.clone())
            .with_clock(clock.clone());
        let (holders, overlaps) = (self.holders.clone(), self.overlaps.clone());
        let losers = self.losers.clone();
        let task = tokio::spawn(async move {
            let owner = WorkerId(name.clone());
            let taken = GroupLease::take(store.clone(), &group(), owner, LEASE).await;
            let Ok(Ok(lease)) = taken else { return };
            let _holding = Holding::begin(name.clone(), holders, &overlaps);
            let (stopper, stop) = Stopper::new();
            let request = UploadRequest::new(group()).with_stop(stop);
            let mut lost = lease.lost();
            let mut work = Box::pin(uploader.upload_pending(&request));
            let ended = tokio::select! {
                ended = &mut work => Some(ended),
                () = lost.stopped() => None,
            };
            if ended.is_none() {
                losers.lock().unwrap().push(name);
                stopper.stop();
                drop(work);
            }
            _ = lease.release("done", clock.now()).await;
        });
        Upload { gate: who.gate, weather: who.weather, task }
    }

    /// Whether anything is left to send.
    pub(crate) async fn are_pending(&self, ground: &Ground) -> bool {
        ground.store.item_counts(&group()).await.unwrap().pending > 0
    }

    /// Processes that lost the group though the store answered every one of their renewals.
    fn lost_without_trouble(&self, events: &[Event]) -> Vec<String> {
        let in_trouble = |who: &str| {
            let renewal = |what: &What| matches!(what, What::Fault { call: "renew_leases", .. });
            events.iter().any(|event| event.who == who && renewal(&event.what))
        };
        let losers = self.losers.lock().unwrap();
        let without = losers.iter().filter(|who| !in_trouble(who));
        without.map(|who| format!("{who} lost the group without any trouble")).collect()
    }

    /// Everything that is wrong with them; nothing, if all is well.
    pub(crate) async fn judge(&self, ground: &Ground) -> Vec<String> {
        let mut problems = Vec::new();
        let overlaps = *self.overlaps.lock().unwrap();
        if overlaps > 0 {
            problems.push(format!("{overlaps} times two held the group at once"));
        }
        problems.extend(self.lost_without_trouble(&ground.log.events()));
        problems.extend(lost_workers(&*ground.store).await);
        let items =
            ground.store.items_page(&Selection::default(), ItemId(0), 1_000.into()).await.unwrap();
        let seen = std::mem::take(&mut *self.receiver.seen.lock().unwrap());
        for item in items {
            let id = item.id;
            let Some(seen) = seen.get(&id) else {
                problems.push(format!("item:{id} was never sent"));
                continue;
            };
            let unit = Some(format!("item:{id}"));
            let filter = JournalFilter { unit, action: Some("upload.giveup".to_owned()) };
            let give_ups = ground.store.journal_page(&filter, 0, 10).await.unwrap().len();
            let spent = item.upload_attempts >= MAX_ITEM_ATTEMPTS;
            let holds = [
                (item.status != ItemStatus::Pending, "it came to its end"),
                (
                    item.status != ItemStatus::Uploaded || seen.acknowledged >= 1,
                    "what is uploaded was acknowledged",
                ),
                (
                    (item.status == ItemStatus::UploadGiveup) == (give_ups == 1) && give_ups <= 1,
                    "it is given up once, and told once",
                ),
                (item.status != ItemStatus::UploadGiveup || spent, "nothing is given up too early"),
                (item.upload_attempts <= seen.rejected, "nothing is counted that was not rejected"),
                (seen.needless == 0, "nobody sends what it knows to be acknowledged"),
                (seen.overspent == 0, "nobody sends what it has counted to the end"),
            ];
            let broken = holds.into_iter().filter(|(holds, _)| !holds);
            problems.extend(
                broken.map(|(_, rule)| format!("item:{id}: not so: {rule}: {seen:?} {item:?}")),
            );
        }
        problems
    }
}

/// A lost process costs its items nothing.
async fn lost_workers(store: &dyn Store) -> Vec<String> {
    let ledger = store.ledger_page(UnitKind::Item, &LedgerPlace::start(), MAX_PAGE).await.unwrap();
    let lost = ledger.iter().filter(|attempt| attempt.cause == Some(Cause::LostWorker));
    lost.map(|attempt| format!("{} was charged for a lost worker", attempt.unit)).collect()
}

/// That a process believes to hold the group, until it ends or is killed.
struct Holding(String, Arc<Mutex<Vec<String>>>);

impl Holding {
    fn begin(name: String, holders: Arc<Mutex<Vec<String>>>, overlaps: &Mutex<u32>) -> Self {
        let mut all = holders.lock().unwrap();
        *overlaps.lock().unwrap() += u32::from(!all.is_empty());
        all.push(name.clone());
        drop(all);
        Self(name, holders)
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.1.lock().unwrap().retain(|name| *name != self.0);
    }
}
