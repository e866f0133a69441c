//! Uploads by script, on both stores: an uploader that does what it is told, around a clock that is moved
//! by hand.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use redrive::{
    Clock, Failure, ItemEvent, ItemGroup, ItemId, ItemOutcome, ItemRecord, ItemReport, NewItem,
    Operator, Policy, PolicySpec, RetrySettings, RetryingUploader, Store, SynchronousMode,
    UploadError, UploadOutcome, UploadReport, UploadRequest, Uploader,
    store::{AddedItem, ItemMove, JournalFilter, Written},
};
use serde_json::Value;

use crate::{databases::one_of_each, folder::Folder};

/// A clock that moves when somebody sleeps.
#[derive(Debug, Default)]
pub(crate) struct Hand(Mutex<(SignedDuration, Vec<Duration>)>);

impl Hand {
    pub(crate) fn sleep(&self, delay: Duration) {
        let mut hand = self.0.lock().unwrap();
        hand.0 += SignedDuration::try_from(delay).unwrap();
        hand.1.push(delay);
    }

    pub(crate) fn sleeps(&self) -> Vec<f64> {
        self.0.lock().unwrap().1.iter().map(Duration::as_secs_f64).collect()
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH + self.0.lock().unwrap().0
    }
}

pub(crate) type Step =
    Box<dyn Fn(&[ItemRecord]) -> Result<UploadReport, UploadError> + Send + Sync>;

/// An uploader that does what a script says with what is pending, and marks what it acknowledges. Its
/// last step goes on for ever.
pub(crate) struct Scripted {
    store: Arc<dyn Store>,
    steps: Mutex<VecDeque<Step>>,
    calls: Arc<AtomicUsize>,
    asked: Arc<Mutex<Vec<&'static str>>>,
    sent: Arc<Mutex<Vec<Vec<ItemId>>>>,
}

#[async_trait]
impl Uploader for Scripted {
    async fn upload_pending(&self, request: &UploadRequest) -> Result<UploadReport, UploadError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let pending = self.store.pending_items(&request.group, ItemId(0), 1_000).await?;
        self.sent.lock().unwrap().push(pending.iter().map(|item| item.id).collect());
        let report = {
            let mut steps = self.steps.lock().unwrap();
            let report = steps[0](&pending);
            if steps.len() > 1 {
                steps.pop_front();
            }
            report
        }?;
        let moves: Vec<ItemMove> = report
            .items
            .iter()
            .filter(|report| report.outcome == ItemOutcome::Uploaded)
            .map(|report| ItemMove::new(report.item, ItemEvent::Acknowledge, Timestamp::UNIX_EPOCH))
            .collect();
        let written = self.store.move_items(&moves).await?;
        assert!(written.iter().all(|written| *written == Written::Applied));
        Ok(report)
    }

    async fn enumerate_pending(
        &self,
        group: &ItemGroup,
        after: ItemId,
        limit: u32,
    ) -> Result<Vec<ItemRecord>, UploadError> {
        self.asked.lock().unwrap().push("enumerate_pending");
        Ok(self.store.pending_items(group, after, limit).await?)
    }

    async fn confirm_ready(&self) -> Result<(), UploadError> {
        self.asked.lock().unwrap().push("confirm_ready");
        Ok(())
    }
}

pub(crate) fn rejection(reason: &str) -> ItemOutcome {
    ItemOutcome::Rejected(Failure::http(422, None, reason))
}

/// Rejects the first so many of what is pending and acknowledges the rest.
pub(crate) fn reject_first(count: usize) -> Step {
    Box::new(move |pending| {
        let outcome =
            |place| if place < count { rejection("bad tile") } else { ItemOutcome::Uploaded };
        let items = pending.iter().enumerate();
        let items =
            items.map(|(place, item)| ItemReport { item: item.id, outcome: outcome(place) });
        let outcome = match count.min(pending.len()) {
            0 => UploadOutcome::Success,
            _ => UploadOutcome::Partial,
        };
        Ok(UploadReport::new(outcome, items.collect()))
    })
}

/// A store with a group of pending items, a scripted uploader around it, and the clock.
pub(crate) struct Bench {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) ids: Vec<ItemId>,
    pub(crate) clock: Arc<Hand>,
    calls: Arc<AtomicUsize>,
    pub(crate) asked: Arc<Mutex<Vec<&'static str>>>,
    sent: Arc<Mutex<Vec<Vec<ItemId>>>>,
    _folder: Folder,
}

pub(crate) fn group() -> ItemGroup {
    ItemGroup { upload: "tiles".to_owned(), group: "flight".to_owned() }
}

impl Bench {
    pub(crate) async fn both(items: usize) -> Vec<Self> {
        let mut both = Vec::new();
        for place in 0..2 {
            // Making a database needs a runtime of its own.
            let fresh = tokio::task::spawn_blocking(move || {
                let folder = Folder::new();
                let url = one_of_each(&folder)[place].parse().unwrap();
                (folder, url)
            });
            let (folder, url) = fresh.await.unwrap();
            let migrator = redrive::migrator(&url).unwrap();
            migrator.migrate_to(migrator.latest(), Timestamp::UNIX_EPOCH).await.unwrap();
            let store =
                redrive::open_migrated_store(&url, SynchronousMode::default()).await.unwrap();
            let new: Vec<NewItem> = (0..items).map(|n| item(&format!("tile{n}"))).collect();
            let at = Timestamp::UNIX_EPOCH;
            let by = Operator { actor: "ada".to_owned(), at, reason: None };
            let added = store.add_items(&new, &by).await.unwrap();
            let id = |added| match added {
                AddedItem::Accepted(id) => id,
                other => panic!("{other:?}"),
            };
            both.push(Self {
                store,
                ids: added.into_iter().map(id).collect(),
                clock: Arc::default(),
                calls: Arc::default(),
                asked: Arc::default(),
                sent: Arc::default(),
                _folder: folder,
            });
        }
        both
    }

    pub(crate) fn scripted(&self, steps: Vec<Step>) -> Scripted {
        Scripted {
            store: self.store.clone(),
            steps: Mutex::new(steps.into()),
            calls: self.calls.clone(),
            asked: self.asked.clone(),
            sent: self.sent.clone(),
        }
    }

    pub(crate) fn uploader(
        &self,
        steps: Vec<Step>,
        settings: RetrySettings,
    ) -> RetryingUploader<Scripted> {
        let (clock, hand) = (self.clock.clone(), self.clock.clone());
        RetryingUploader::new(self.scripted(steps), self.store.clone(), settings, "tester")
            .with_clock(clock)
            .with_sleep(move |delay| {
                hand.sleep(delay);
                std::future::ready(())
            })
    }

    pub(crate) async fn upload(&self, steps: Vec<Step>, settings: RetrySettings) -> UploadReport {
        let uploader = self.uploader(steps, settings);
        uploader.upload_pending(&UploadRequest::new(group())).await.unwrap()
    }

    pub(crate) async fn item(&self, place: usize) -> ItemRecord {
        self.store.items_by_id(&[self.ids[place]]).await.unwrap().pop().unwrap()
    }

    pub(crate) async fn attempts(&self) -> Vec<u32> {
        let items = self.store.items_by_id(&self.ids).await.unwrap();
        items.iter().map(|item| item.upload_attempts).collect()
    }

    pub(crate) async fn give_ups(&self) -> Vec<Value> {
        let filter = JournalFilter { action: Some("upload.giveup".to_owned()), unit: None };
        let journal = self.store.journal_page(&filter, 0, 100).await.unwrap();
        journal.iter().map(|row| serde_json::from_str(&row.entry.details).unwrap()).collect()
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    pub(crate) fn sent(&self) -> Vec<Vec<ItemId>> {
        self.sent.lock().unwrap().clone()
    }
}

fn item(name: &str) -> NewItem {
    NewItem {
        group: group(),
        name: name.to_owned(),
        content_url: format!("file:/{name}"),
        size_bytes: 1,
        sha256: "ab".repeat(32),
    }
}

pub(crate) fn settings(max_in_call_retries: u32, spec: PolicySpec) -> RetrySettings {
    RetrySettings::new(Policy::new(spec).unwrap(), max_in_call_retries)
}
