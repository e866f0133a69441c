//! What the uploader that retries does beyond its acceptance criteria, on both stores.

use std::{sync::Mutex, time::Duration};

use redrive::{
    Clock, Failure, ItemEvent, ItemOutcome, ItemReport, ItemStatus, PolicySpec, Preset,
    RetrySettings, RetryingUploader, UploadOutcome, UploadReport, UploadRequest, Uploader,
    store::{ItemMove, Written},
};
use serde_json::{Value, json};

use crate::upload_script::{Bench, Step, group, reject_first, rejection, settings};

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
        let reset = ItemMove::new(bench.ids[0], ItemEvent::Reset, bench.clock.now());
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
