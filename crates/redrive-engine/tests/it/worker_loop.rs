//! The worker loop, on a kind of work that it knows nothing about, in virtual time.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use redrive_engine::{Stopper, UnitLeases, Until, WorkerLimits, run_worker};
use redrive_store::Error;
use tokio::sync::watch;

use crate::tiny_work::{Act, Number, Status, TinyWork, WORKER, down, tiny};

/// Runs until nothing is left to do. The sender outlives the loop, so that only polling wakes it.
async fn drain(work: &Arc<TinyWork>) {
    let (_stopper, stop) = Stopper::new();
    let (_wake, wakes) = watch::channel(0);
    run_worker(work.clone(), wakes, stop, Until::Drained).await;
}

/// Lets virtual time pass.
pub(crate) async fn pass(time: Duration) {
    tokio::time::timeout(time, std::future::pending::<()>()).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn every_unit_is_done_once_and_never_more_at_once_than_allowed() {
    let work = tiny(1_000, |_, _| Act::Take(Duration::from_millis(3)));
    drain(&work).await;
    assert_eq!(work.in_status(Status::Done), 1_000);
    assert!(work.numbers().values().all(|number| number.attempts == 1));
    assert_eq!(work.most_running.load(Ordering::SeqCst), 4);
}

#[tokio::test(start_paused = true)]
async fn a_unit_that_fails_is_tried_again_and_given_up_in_the_end() {
    let work = tiny(30, |id, attempt| match id % 3 {
        0 => Act::Fail,
        1 if attempt < 3 => Act::Fail,
        _ => Act::Succeed,
    });
    drain(&work).await;
    assert_eq!((work.in_status(Status::Done), work.in_status(Status::GivenUp)), (20, 10));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_has_failed_and_nobody_else_has() {
    let work = tiny(10, |id, _| if id == 5 { Act::Panic } else { Act::Succeed });
    drain(&work).await;
    assert_eq!((work.in_status(Status::Done), work.in_status(Status::GivenUp)), (9, 1));
    assert_eq!(work.numbers()[&5].attempts, 3);
}

// OPS-6
#[tokio::test(start_paused = true)]
async fn told_to_stop_it_lets_work_end_within_the_grace_time_and_hands_back_the_rest() {
    let work = tiny(100, |id, _| match id {
        1 | 2 => Act::Take(Duration::from_secs(5)),
        _ => Act::UntilStopped,
    });
    let (stopper, stop) = Stopper::new();
    let (_wake, wakes) = watch::channel(0);
    let running = tokio::spawn(run_worker(work.clone(), wakes, stop, Until::Stopped));
    pass(Duration::from_secs(1)).await;
    stopper.stop();
    running.await.unwrap();
    assert_eq!(work.in_status(Status::Done), 2, "these ended within the grace time");
    assert_eq!(work.in_status(Status::Ready), 98);
    let attempts: u32 = work.numbers().values().map(|number| number.attempts).sum();
    assert_eq!(attempts, 2, "what was handed back is not counted");
    assert!(work.handed_back.load(Ordering::SeqCst) >= 2);
}

// RUN-7
#[tokio::test(start_paused = true)]
async fn work_longer_than_its_lease_is_renewed_and_not_done_twice() {
    let work = tiny(2, |_, _| Act::Take(Duration::from_secs(3_600)));
    drain(&work).await;
    assert!(work.numbers().values().all(|n| n.attempts == 1 && n.status == Status::Done));
}

// RUN-7
#[tokio::test(start_paused = true)]
async fn a_unit_that_was_taken_away_is_stopped_at_the_next_renewal_and_writes_nothing() {
    let work = tiny(1, |_, _| Act::UntilStopped);
    let (stopper, stop) = Stopper::new();
    let (_wake, wakes) = watch::channel(0);
    let running = tokio::spawn(run_worker(work.clone(), wakes, stop, Until::Stopped));
    pass(Duration::from_secs(1)).await;
    work.steal(1);
    pass(Duration::from_secs(20)).await;
    assert_eq!(work.most_running.load(Ordering::SeqCst), 1);
    stopper.stop();
    running.await.unwrap();
    assert_eq!(work.numbers()[&1].attempts, 0);
    assert_eq!(work.handed_back.load(Ordering::SeqCst), 0, "it is not ours to hand back");
}

// RUN-7
#[tokio::test(start_paused = true)]
async fn a_result_that_cannot_be_written_is_kept_until_it_can() {
    let work = tiny(10, |_, _| Act::Succeed);
    work.failing.lock().unwrap().extend((0..8).map(|_| down()));
    drain(&work).await;
    assert_eq!(work.in_status(Status::Done), 10);
    assert!(work.numbers().values().all(|number| number.attempts == 1), "nothing was done twice");
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_refused_strands_nobody_elses() {
    let mut poisoned = TinyWork::new(20, WorkerLimits::default(), |_, _| Act::Succeed);
    poisoned.poison = Some(7);
    let work = Arc::new(poisoned);
    work.failing.lock().unwrap().push(Error::misuse("writing", "odd"));
    let (stopper, stop) = Stopper::new();
    let (_wake, wakes) = watch::channel(0);
    let running = tokio::spawn(run_worker(work.clone(), wakes, stop, Until::Stopped));
    pass(Duration::from_secs(5)).await;
    assert_eq!(work.in_status(Status::Done), 19);
    stopper.stop();
    running.await.unwrap();
}

// RUN-7
#[tokio::test(start_paused = true)]
async fn a_lost_worker_counts_and_its_unit_comes_back() {
    let work = tiny(3, |_, _| Act::Succeed);
    let long_ago = jiff::Timestamp::UNIX_EPOCH;
    work.numbers().get_mut(&2).unwrap().status = Status::Held { until: long_ago };
    drain(&work).await;
    assert_eq!(work.in_status(Status::Done), 3);
    assert_eq!(work.numbers()[&2].attempts, 2, "the lost attempt and the good one");
}

#[tokio::test(start_paused = true)]
async fn it_claims_no_more_than_it_can_start_soon() {
    let work = tiny(10_000, |_, _| Act::Take(Duration::from_secs(60)));
    let (stopper, stop) = Stopper::new();
    let (_wake, wakes) = watch::channel(0);
    let running = tokio::spawn(run_worker(work.clone(), wakes, stop, Until::Stopped));
    pass(Duration::from_secs(30)).await;
    assert_eq!(work.in_status(Status::Ready), 10_000 - 4);
    stopper.stop();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_notification_during_a_claim_makes_the_loop_look_again_at_once() {
    let poll = Duration::from_secs(3_600);
    let mut slow =
        TinyWork::new(0, WorkerLimits { poll, ..WorkerLimits::default() }, |_, _| Act::Succeed);
    slow.claims_take = Duration::from_secs(2);
    let work = Arc::new(slow);
    let (_stopper, stop) = Stopper::new();
    let (wake, wakes) = watch::channel(0);
    tokio::spawn(run_worker(work.clone(), wakes, stop, Until::Stopped));
    pass(Duration::from_secs(1)).await;
    work.add(1);
    wake.send_replace(1);
    pass(Duration::from_secs(10)).await;
    assert_eq!(work.in_status(Status::Done), 1);
}

// RUN-7
#[tokio::test(start_paused = true)]
async fn units_of_a_claim_that_hangs_are_not_begun_and_go_back_before_their_lease_ends() {
    let mut slow = TinyWork::new(2, WorkerLimits::default(), |_, _| Act::Succeed);
    (slow.owner, slow.claims_take) = (WORKER, slow.limits.lease);
    let work = Arc::new(slow);
    let (_stopper, stop) = Stopper::new();
    let (_wake, wakes) = watch::channel(0);
    tokio::spawn(run_worker(work.clone(), wakes, stop, Until::Stopped));
    pass(work.limits.lease * 2 / 3).await;
    assert_eq!(work.most_running.load(Ordering::SeqCst), 0);
    assert_eq!(work.handed_back.load(Ordering::SeqCst), 2);
}

// RUN-7
#[tokio::test(start_paused = true)]
async fn a_unit_that_comes_back_before_its_last_result_is_acknowledged_stays_held() {
    let mut slow = TinyWork::new(1, WorkerLimits::default(), |_, attempt| match attempt {
        1 => Act::Fail,
        _ => Act::Take(Duration::from_secs(600)),
    });
    slow.finishes_take = Duration::from_secs(5);
    let work = Arc::new(slow);
    drain(&work).await;
    let number = work.numbers()[&1];
    assert_eq!((number.status, number.attempts), (Status::Done, 2), "no attempt was lost");
}

// RUN-7
#[tokio::test(start_paused = true)]
async fn a_unit_of_a_lost_worker_comes_back_when_its_lease_ends_and_not_much_later() {
    let work = tiny(1, |_, _| Act::Take(Duration::from_secs(3_600)));
    let until = work.now() + Duration::from_secs(44);
    work.numbers().get_mut(&1).unwrap().status = Status::Held { until };
    let (_stopper, stop) = Stopper::new();
    let (_wake, wakes) = watch::channel(0);
    tokio::spawn(run_worker(work.clone(), wakes, stop, Until::Stopped));
    pass(Duration::from_millis(43_900)).await;
    assert_eq!(work.numbers()[&1].attempts, 0);
    pass(Duration::from_millis(1_100)).await;
    assert_eq!(work.numbers()[&1].attempts, 1, "the lost attempt counts");
}

// OPS-7
#[tokio::test(start_paused = true)]
async fn a_drain_ends_as_soon_as_the_last_lost_unit_is_given_up() {
    let poll = Duration::from_secs(3_600);
    let work =
        Arc::new(TinyWork::new(1, WorkerLimits { poll, ..WorkerLimits::default() }, |_, _| {
            Act::Succeed
        }));
    let until = work.now() + Duration::from_secs(40);
    *work.numbers().get_mut(&1).unwrap() =
        Number { status: Status::Held { until }, epoch: 1, attempts: 2 };
    tokio::time::timeout(Duration::from_secs(45), drain(&work)).await.expect("it ends");
    assert_eq!(work.in_status(Status::GivenUp), 1);
}

// OPS-7
#[tokio::test(start_paused = true)]
async fn a_drain_ends_as_soon_as_the_last_result_is_written_also_while_it_looks_what_is_left() {
    let poll = Duration::from_secs(1);
    let mut slow = TinyWork::new(1, WorkerLimits { poll, ..WorkerLimits::default() }, |_, _| {
        Act::Take(Duration::from_millis(120))
    });
    // It looks from 100 ms on, sees one that is held, and hears so when nothing is any more.
    slow.outlooks_take = Duration::from_millis(50);
    let work = Arc::new(slow);
    tokio::time::timeout(poll / 2, drain(&work)).await.expect("it ends");
    assert_eq!(work.in_status(Status::Done), 1);
}

// OPS-6
#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_does_not_keep_the_loop_from_stopping() {
    let mut hanging = TinyWork::new(2, WorkerLimits::default(), |_, _| Act::Succeed);
    hanging.claims_take = Duration::from_secs(3_600);
    let work = Arc::new(hanging);
    let (stopper, stop) = Stopper::new();
    let (_wake, wakes) = watch::channel(0);
    let running = tokio::spawn(run_worker(work.clone(), wakes, stop, Until::Stopped));
    pass(Duration::from_secs(1)).await;
    stopper.stop();
    tokio::time::timeout(work.limits.grace * 3, running).await.expect("it stops").unwrap();
}

// RUN-7
#[tokio::test(start_paused = true)]
async fn a_handler_that_stops_unasked_has_failed() {
    let work = tiny(3, |id, _| if id == 2 { Act::Quit } else { Act::Succeed });
    tokio::time::timeout(Duration::from_secs(60), drain(&work)).await.expect("it ends");
    assert_eq!((work.in_status(Status::Done), work.in_status(Status::GivenUp)), (2, 1));
    assert_eq!(work.handed_back.load(Ordering::SeqCst), 0);
}

// RUN-7
#[tokio::test(start_paused = true)]
async fn a_lost_unit_that_cannot_be_written_strands_no_other() {
    let limits = WorkerLimits { concurrency: 4, ..WorkerLimits::default() };
    let mut work = TinyWork::new(5, limits, |_, _| Act::Succeed);
    work.poison = Some(3);
    let work = Arc::new(work);
    work.lose_all();
    let (stopper, stop) = Stopper::new();
    let (_wake, wakes) = watch::channel(0);
    let running = tokio::spawn(run_worker(work.clone(), wakes, stop, Until::Stopped));
    pass(work.limits.lease * 5).await;
    assert_eq!(work.in_status(Status::Done), 4);
    stopper.stop();
    running.await.unwrap();
}
