//! The acceptance criteria of uploads, on both stores. Criterion 8 is about migrations and stands beside
//! them in the crates of the stores; criteria 10 and 13 are shown by the program as well, in `uploads.rs`.

use std::{sync::Arc, time::Duration};

use jiff::SignedDuration;
use redrive::{
    Clock, Failure, ItemOutcome, ItemReport, ItemStatus, PolicySpec, Preset, RetrySettings,
    RetryingUploader, UploadError, UploadOutcome, UploadReport, UploadRequest, Uploader,
};
use serde_json::json;

use crate::upload_script::{Bench, Step, group, reject_first, settings};

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
