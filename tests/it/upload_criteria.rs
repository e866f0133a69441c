//! The thirteen acceptance criteria of uploads, on both stores: the uploader that retries, around one
//! that does what a script says, with a clock that is moved by hand.

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
    Clock, Failure, ItemEvent, ItemGroup, ItemId, ItemOutcome, ItemRecord, ItemReport, ItemStatus,
    NewItem, Policy, PolicySpec, Preset, RetrySettings, RetryingUploader, Store, UploadError,
    UploadOutcome, UploadReport, UploadRequest, Uploader, config,
    store::{AddedItem, ItemMove, JournalFilter, Written},
};
use serde_json::{Value, json};

use crate::{databases::one_of_each, folder::Folder};

/// A clock that moves when somebody sleeps.
#[derive(Debug, Default)]
pub(crate) struct Hand(Mutex<(SignedDuration, Vec<Duration>)>);

impl Hand {
    fn sleep(&self, delay: Duration) {
        let mut hand = self.0.lock().unwrap();
        hand.0 += SignedDuration::try_from(delay).unwrap();
        hand.1.push(delay);
    }

    fn sleeps(&self) -> Vec<f64> {
        self.0.lock().unwrap().1.iter().map(Duration::as_secs_f64).collect()
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH + self.0.lock().unwrap().0
    }
}

type Step = Box<dyn Fn(&[ItemRecord]) -> Result<UploadReport, UploadError> + Send + Sync>;

/// An uploader that does what a script says with what is pending, and marks what it acknowledges. Its
/// last step goes on for ever.
struct Scripted {
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
            .map(|report| ItemMove {
                id: report.item,
                event: ItemEvent::Acknowledge,
                rejection_reason: None,
                at: Timestamp::UNIX_EPOCH,
                attempt: None,
                journal: None,
            })
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

fn rejection(reason: &str) -> ItemOutcome {
    ItemOutcome::Rejected(Failure::http(422, None, reason))
}

/// Rejects the first so many of what is pending and acknowledges the rest.
fn reject_first(count: usize) -> Step {
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
struct Bench {
    store: Arc<dyn Store>,
    ids: Vec<ItemId>,
    clock: Arc<Hand>,
    calls: Arc<AtomicUsize>,
    asked: Arc<Mutex<Vec<&'static str>>>,
    sent: Arc<Mutex<Vec<Vec<ItemId>>>>,
    _folder: Folder,
}

fn group() -> ItemGroup {
    ItemGroup { upload: "tiles".to_owned(), group: "flight".to_owned() }
}

impl Bench {
    async fn both(items: usize) -> Vec<Self> {
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
            let settings = config::Store::default();
            let store = redrive::open_migrated_store(&url, &settings).await.unwrap();
            let new: Vec<NewItem> = (0..items).map(|n| item(&format!("tile{n}"))).collect();
            let added = store.add_items(&new, Timestamp::UNIX_EPOCH).await.unwrap();
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

    fn scripted(&self, steps: Vec<Step>) -> Scripted {
        Scripted {
            store: self.store.clone(),
            steps: Mutex::new(steps.into()),
            calls: self.calls.clone(),
            asked: self.asked.clone(),
            sent: self.sent.clone(),
        }
    }

    fn uploader(&self, steps: Vec<Step>, settings: RetrySettings) -> RetryingUploader<Scripted> {
        let (clock, hand) = (self.clock.clone(), self.clock.clone());
        RetryingUploader::new(self.scripted(steps), self.store.clone(), settings, "tester")
            .with_clock(clock)
            .with_sleep(move |delay| {
                hand.sleep(delay);
                std::future::ready(())
            })
    }

    async fn upload(&self, steps: Vec<Step>, settings: RetrySettings) -> UploadReport {
        let uploader = self.uploader(steps, settings);
        uploader.upload_pending(&UploadRequest::new(group())).await.unwrap()
    }

    async fn item(&self, place: usize) -> ItemRecord {
        self.store.items_by_id(&[self.ids[place]]).await.unwrap().pop().unwrap()
    }

    async fn attempts(&self) -> Vec<u32> {
        let items = self.store.items_by_id(&self.ids).await.unwrap();
        items.iter().map(|item| item.upload_attempts).collect()
    }

    async fn give_ups(&self) -> Vec<Value> {
        let filter = JournalFilter { action: Some("upload.giveup".to_owned()), unit: None };
        let journal = self.store.journal_page(&filter, 0, 100).await.unwrap();
        journal.iter().map(|row| serde_json::from_str(&row.entry.details).unwrap()).collect()
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    fn sent(&self) -> Vec<Vec<ItemId>> {
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

fn settings(max_in_call_retries: u32, spec: PolicySpec) -> RetrySettings {
    RetrySettings::new(Policy::new(spec).unwrap(), max_in_call_retries)
}

// UPL-2, UPL-9
#[tokio::test]
async fn ac_1_a_success_at_once_is_passed_on_without_a_sleep_or_a_count() {
    for bench in Bench::both(3).await {
        let report = bench.upload(vec![reject_first(0)], RetrySettings::default()).await;
        let items =
            bench.ids.iter().map(|id| ItemReport { item: *id, outcome: ItemOutcome::Uploaded });
        assert_eq!(report, UploadReport::new(UploadOutcome::Success, items.collect()));
        assert_eq!((bench.calls(), bench.clock.sleeps()), (1, vec![]));
        assert_eq!(bench.attempts().await, [0; 3]);
    }
}

// UPL-2, UPL-3, UPL-9
#[tokio::test]
async fn ac_2_what_was_rejected_is_counted_and_sent_again_after_two_seconds() {
    for bench in Bench::both(10).await {
        let steps = vec![reject_first(3), reject_first(0)];
        let report = bench.upload(steps, RetrySettings::default()).await;
        assert_eq!((report.outcome, report.retry_count), (UploadOutcome::Success, 1));
        assert_eq!((report.next_retry_at, report.items.len()), (None, 10));
        assert!(report.items.iter().all(|item| item.outcome == ItemOutcome::Uploaded));
        assert_eq!((bench.calls(), bench.clock.sleeps()), (2, vec![2.0]));
        assert_eq!(bench.attempts().await, [1, 1, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bench.sent()[1], bench.ids[..3]);
    }
}

// UPL-2, UPL-9
#[tokio::test]
async fn ac_3_an_item_that_is_rejected_five_times_is_given_up_and_told_once() {
    for bench in Bench::both(2).await {
        let spec = PolicySpec { max_attempts: Some(5), ..Preset::Upload.spec() };
        let report = bench.upload(vec![reject_first(1)], settings(20, spec)).await;
        assert_eq!((report.outcome, report.retry_count), (UploadOutcome::Partial, 4));
        assert_eq!(report.next_retry_at, None, "nothing is pending");
        assert_eq!(bench.calls(), 5, "what was given up is not sent again");
        let item = bench.item(0).await;
        assert_eq!((item.status, item.upload_attempts), (ItemStatus::UploadGiveup, 5));
        assert_eq!(item.rejection_reason.as_deref(), Some("bad tile"));
        let told = bench.give_ups().await;
        assert_eq!(told.len(), 1);
        let id = bench.ids[0].0;
        assert_eq!((&told[0]["item"], &told[0]["attempts"]), (&json!(id), &json!(5)));
        assert_eq!(told[0]["last_rejection_reason"], "bad tile");
        let failure = Failure::http(422, None, "bad tile");
        let outcome = ItemOutcome::GivenUp { attempts: 5, failure };
        assert_eq!(report.items[0], ItemReport { item: bench.ids[0], outcome });
    }
}

// UPL-2, UPL-3, UPL-9
#[tokio::test]
async fn ac_4_three_retries_after_two_four_and_eight_seconds_and_then_a_hint() {
    for bench in Bench::both(2).await {
        let report = bench.upload(vec![reject_first(1)], RetrySettings::default()).await;
        assert_eq!((report.outcome, report.retry_count), (UploadOutcome::Partial, 3));
        assert_eq!((bench.calls(), bench.clock.sleeps()), (4, vec![2.0, 4.0, 8.0]));
        let hint = bench.clock.now() + SignedDuration::from_secs(60);
        assert_eq!(report.next_retry_at, Some(hint));
        assert_eq!(bench.attempts().await, [4, 0]);
        assert_eq!(bench.item(0).await.status, ItemStatus::Pending);
    }
}

// UPL-3, UPL-9
#[tokio::test]
async fn ac_5_no_sleep_is_longer_than_the_cap() {
    for bench in Bench::both(1).await {
        let spec = PolicySpec {
            max_attempts: Some(100),
            cap: Duration::from_secs(10),
            ..Preset::Upload.spec()
        };
        bench.upload(vec![reject_first(1)], settings(10, spec)).await;
        let expected = [2.0, 4.0, 8.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0];
        assert_eq!(bench.clock.sleeps(), expected);
    }
}

// UPL-5, UPL-9
#[test]
fn ac_6_an_item_can_be_given_up_beside_the_other_statuses() {
    let names = ItemStatus::ALL.map(ItemStatus::name);
    assert_eq!(names, ["pending", "uploaded", "trusted", "rejected", "upload_giveup"]);
}

// UPL-4, UPL-9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ac_7_a_count_returns_the_new_count_and_counts_at_once_are_exact() {
    for bench in Bench::both(20).await {
        let one = bench.ids[0];
        for expected in 1..=3 {
            let count = bench.store.increment_upload_attempts(one).await.unwrap();
            assert_eq!(count, Some(expected));
        }
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..200 {
            let (store, id) = (bench.store.clone(), bench.ids[n % 20]);
            tasks.spawn(async move { store.increment_upload_attempts(id).await.unwrap() });
        }
        assert!(tasks.join_all().await.iter().all(Option::is_some));
        let attempts = bench.attempts().await;
        assert_eq!(attempts[0], 13);
        assert!(attempts[1..].iter().all(|count| *count == 10), "{attempts:?}");
    }
}

// UPL-2, UPL-9
#[tokio::test]
async fn ac_9_the_uploader_that_retries_is_an_uploader_and_can_itself_be_wrapped() {
    for bench in Bench::both(2).await {
        let inner = bench.uploader(vec![reject_first(0)], RetrySettings::default());
        let uploader: Arc<dyn Uploader> = Arc::new(inner);
        let store = bench.store.clone();
        let outer = RetryingUploader::new(uploader, store, RetrySettings::default(), "outer");
        let report = outer.upload_pending(&UploadRequest::new(group())).await.unwrap();
        assert_eq!(report.outcome, UploadOutcome::Success);
    }
}

// UPL-1, UPL-2, UPL-9
#[tokio::test]
async fn ac_11_the_other_questions_are_passed_on_as_they_are() {
    for bench in Bench::both(3).await {
        let uploader = bench.uploader(vec![reject_first(0)], RetrySettings::default());
        uploader.confirm_ready().await.unwrap();
        let pending = uploader.enumerate_pending(&group(), bench.ids[0], 1).await.unwrap();
        assert_eq!(pending.iter().map(|item| item.id).collect::<Vec<_>>(), [bench.ids[1]]);
        assert_eq!(*bench.asked.lock().unwrap(), ["confirm_ready", "enumerate_pending"]);
        assert_eq!(bench.calls(), 0);
    }
}

// UPL-2, UPL-3, UPL-9
#[tokio::test]
async fn ac_12_an_error_of_the_inner_one_passes_through_at_once() {
    for bench in Bench::both(2).await {
        let request = UploadRequest::new(group());
        let errors: [fn(Failure) -> UploadError; 2] =
            [UploadError::NotReady, UploadError::Unreachable];
        for error in errors {
            let step: Step = Box::new(move |_| Err(error(Failure::http(503, None, "in the air"))));
            let uploader = bench.uploader(vec![step], RetrySettings::default());
            let passed = uploader.upload_pending(&request).await.unwrap_err();
            assert!(passed.to_string().ends_with(": in the air"), "{passed}");
        }
        assert_eq!((bench.calls(), bench.clock.sleeps()), (2, vec![]));
        // Also in the middle, after what was rejected before is counted.
        let broken: Step = Box::new(|_| Err(UploadError::Other("cable cut".into())));
        let uploader = bench.uploader(vec![reject_first(1), broken], RetrySettings::default());
        let passed = uploader.upload_pending(&request).await.unwrap_err();
        assert!(matches!(passed, UploadError::Other(_)));
        assert_eq!((bench.attempts().await, bench.clock.sleeps()), (vec![1, 0], vec![2.0]));
    }
}

// UPL-7, UPL-9
#[tokio::test]
async fn ac_13_a_later_call_sends_only_what_was_not_acknowledged() {
    for bench in Bench::both(50).await {
        let no_retries = || settings(0, Preset::Upload.spec());
        let first = bench.upload(vec![reject_first(20)], no_retries()).await;
        assert_eq!((first.outcome, first.retry_count), (UploadOutcome::Partial, 0));
        bench.clock.sleep(Duration::from_secs(300));
        let second = bench.upload(vec![reject_first(0)], no_retries()).await;
        assert_eq!((second.outcome, second.items.len()), (UploadOutcome::Success, 20));
        assert_eq!(bench.sent(), [bench.ids.clone(), bench.ids[..20].to_vec()]);
    }
}

// UPL-2
#[tokio::test]
async fn a_batch_that_is_refused_as_a_whole_is_passed_on_and_nothing_is_counted() {
    for bench in Bench::both(2).await {
        let refused: Step = Box::new(|_| {
            let refusal = Some(Failure::http(401, None, "who are you?"));
            Ok(UploadReport { refusal, ..UploadReport::new(UploadOutcome::Failure, vec![]) })
        });
        let report = bench.upload(vec![refused], RetrySettings::default()).await;
        assert_eq!((report.outcome, bench.calls()), (UploadOutcome::Failure, 1));
        assert_eq!((bench.attempts().await, bench.clock.sleeps()), (vec![0, 0], vec![]));
    }
}

// UPL-3
#[tokio::test]
async fn a_hint_of_the_server_makes_a_sleep_longer_up_to_the_cap() {
    for (hint, slept) in [(1, 2.0), (7, 7.0), (3_600, 60.0)] {
        for bench in Bench::both(1).await {
            let hinted: Step = Box::new(move |pending| {
                let failure = Failure::http(429, Some(Duration::from_secs(hint)), "slow down");
                let outcome = ItemOutcome::Rejected(failure);
                let items = vec![ItemReport { item: pending[0].id, outcome }];
                Ok(UploadReport::new(UploadOutcome::Partial, items))
            });
            let report =
                bench.upload(vec![hinted, reject_first(0)], RetrySettings::default()).await;
            assert_eq!(
                (report.outcome, bench.clock.sleeps()),
                (UploadOutcome::Success, vec![slept])
            );
            assert_eq!(bench.attempts().await, [1], "every rejection is counted");
        }
    }
}

// UPL-5
#[tokio::test]
async fn an_item_that_is_reset_is_given_up_again_five_attempts_later() {
    for bench in Bench::both(1).await {
        let upload = || bench.upload(vec![reject_first(1)], settings(9, Preset::Upload.spec()));
        upload().await;
        assert_eq!(bench.item(0).await.status, ItemStatus::UploadGiveup);
        let reset = ItemMove {
            id: bench.ids[0],
            event: ItemEvent::Reset,
            rejection_reason: None,
            at: bench.clock.now(),
            attempt: None,
            journal: None,
        };
        assert_eq!(bench.store.move_items(&[reset]).await.unwrap(), [Written::Applied]);
        upload().await;
        let item = bench.item(0).await;
        assert_eq!((item.status, item.upload_attempts), (ItemStatus::UploadGiveup, 10));
        let attempts: Vec<Value> =
            bench.give_ups().await.iter().map(|told| told["attempts"].clone()).collect();
        assert_eq!(attempts, [json!(5), json!(10)]);
    }
}

// UPL-2
#[tokio::test]
async fn a_retried_success_in_which_an_item_was_given_up_is_partial() {
    for bench in Bench::both(2).await {
        let spec = PolicySpec { max_attempts: Some(1), ..Preset::Upload.spec() };
        let keep_one: Step = Box::new(|pending| {
            let outcome = |place| if place == 0 { rejection("no") } else { ItemOutcome::NotSent };
            let items = pending.iter().enumerate();
            let items =
                items.map(|(place, item)| ItemReport { item: item.id, outcome: outcome(place) });
            Ok(UploadReport::new(UploadOutcome::Partial, items.collect()))
        });
        let report = bench.upload(vec![keep_one, reject_first(0)], settings(3, spec)).await;
        assert_eq!((report.outcome, report.retry_count), (UploadOutcome::Partial, 1));
        let statuses = [bench.item(0).await.status, bench.item(1).await.status];
        assert_eq!(statuses, [ItemStatus::UploadGiveup, ItemStatus::Uploaded]);
    }
}

// UPL-8
#[tokio::test]
async fn a_stop_ends_a_sleep_at_once_and_what_was_counted_is_counted() {
    for bench in Bench::both(2).await {
        let (stopper, stop) = redrive::Stopper::new();
        let stopper = Mutex::new(Some(stopper));
        let uploader = RetryingUploader::new(
            bench.scripted(vec![reject_first(1)]),
            bench.store.clone(),
            RetrySettings::default(),
            "tester",
        )
        .with_clock(bench.clock.clone())
        // A sleep that never ends, during which somebody says stop.
        .with_sleep(move |_| {
            stopper.lock().unwrap().take().unwrap().stop();
            std::future::pending()
        });
        let request = UploadRequest::new(group()).with_stop(stop);
        let report = uploader.upload_pending(&request).await.unwrap();
        assert_eq!((report.outcome, report.interrupted), (UploadOutcome::Partial, true));
        assert!(report.next_retry_at.is_some());
        assert_eq!((bench.calls(), bench.attempts().await), (1, vec![1, 0]));
        let statuses = [bench.item(0).await.status, bench.item(1).await.status];
        assert_eq!(statuses, [ItemStatus::Pending, ItemStatus::Uploaded]);
    }
}
