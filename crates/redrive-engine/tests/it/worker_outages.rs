//! A store that is away for longer than a lease, while workers live on: nobody was lost, so nothing
//! is counted against a unit.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use redrive_engine::{Stopper, Until, WorkerLimits, run_worker};
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    tiny_work::{Act, Status, TinyWork, WORKER, tiny},
    worker_loop::pass,
};

/// Longer than the lease of a minute.
const OUTAGE: Duration = Duration::from_secs(300);

/// Starts two workers that drain, and takes the store away after a second.
async fn cut_off(work: &Arc<TinyWork>) -> Vec<JoinHandle<()>> {
    let workers = start_two(work).await;
    work.away.store(true, Ordering::SeqCst);
    workers
}

/// Starts two workers that drain, and lets them work for a second.
async fn start_two(work: &Arc<TinyWork>) -> Vec<JoinHandle<()>> {
    let worker = |_| {
        let (stopper, stop) = Stopper::new();
        let (wake, wakes) = watch::channel(0);
        let work = work.clone();
        tokio::spawn(async move {
            run_worker(work, wakes, stop, Until::Drained).await;
            drop((stopper, wake));
        })
    };
    let workers = (0..2).map(worker).collect();
    pass(Duration::from_secs(1)).await;
    workers
}

async fn come_back(work: &TinyWork, workers: Vec<JoinHandle<()>>) {
    work.away.store(false, Ordering::SeqCst);
    for worker in workers {
        worker.await.unwrap();
    }
}

// RUN-7
#[tokio::test(start_paused = true)]
async fn attempts_that_had_to_be_stopped_are_handed_back_and_not_counted() {
    let good = Arc::new(AtomicBool::new(false));
    let act = {
        let good = good.clone();
        move |_, _| match good.load(Ordering::SeqCst) {
            true => Act::Succeed,
            false => Act::UntilStopped,
        }
    };
    let work = tiny(6, act);
    let workers = cut_off(&work).await;
    pass(OUTAGE).await;
    good.store(true, Ordering::SeqCst);
    come_back(&work, workers).await;
    assert_eq!(work.in_status(Status::Done), 6);
    assert!(work.numbers().values().all(|number| number.attempts == 1));
    assert_eq!(work.handed_back.load(Ordering::SeqCst), 6);
}

// RUN-7
#[tokio::test(start_paused = true)]
async fn an_outage_that_two_renewals_fall_into_stops_nothing() {
    let work = tiny(4, |_, _| Act::TakeOrStop(Duration::from_secs(120)));
    let workers = cut_off(&work).await;
    pass(work.limits.lease * 2 / 3).await;
    come_back(&work, workers).await;
    assert_eq!(work.in_status(Status::Done), 4);
    assert_eq!(work.handed_back.load(Ordering::SeqCst), 0);
}

// RUN-7
#[tokio::test(start_paused = true)]
async fn what_takes_long_to_stop_is_held_until_it_has() {
    let work = tiny(4, |_, _| Act::Linger(OUTAGE));
    let workers = cut_off(&work).await;
    pass(work.limits.lease).await;
    work.away.store(false, Ordering::SeqCst);
    pass(OUTAGE).await;
    assert!(work.numbers().values().all(|number| number.attempts == 0), "nobody was lost");
    assert_eq!(work.handed_back.load(Ordering::SeqCst), 4);
    workers.iter().for_each(JoinHandle::abort);
}

// RUN-7
#[tokio::test(start_paused = true)]
async fn nobody_is_lost_while_the_store_answers_and_takes_no_writes() {
    let work = tiny(8, |_, _| Act::TakeOrStop(Duration::from_secs(30)));
    let workers = start_two(&work).await;
    work.locked.send_replace(true);
    pass(OUTAGE).await;
    work.locked.send_replace(false);
    for worker in workers {
        worker.await.unwrap();
    }
    assert_eq!(work.in_status(Status::Done), 8);
    assert!(work.numbers().values().all(|number| number.attempts == 1), "nobody was lost");
    assert_eq!(work.stale.load(Ordering::SeqCst), 0);
}

// RUN-7
#[tokio::test(start_paused = true)]
async fn results_are_kept_and_written_when_the_store_is_back() {
    let work = tiny(6, |_, _| Act::Take(Duration::from_secs(2)));
    let workers = cut_off(&work).await;
    pass(OUTAGE).await;
    come_back(&work, workers).await;
    assert_eq!(work.in_status(Status::Done), 6);
    assert!(work.numbers().values().all(|number| number.attempts == 1), "nothing was done twice");
    assert_eq!(work.stale.load(Ordering::SeqCst), 0);
}

/// The store took the claim, and its answer was lost. Who holds the numbers is written there.
// RUN-7
#[tokio::test(start_paused = true)]
async fn what_was_claimed_without_an_answer_is_released_long_before_its_lease_ends() {
    let mut work = TinyWork::new(6, WorkerLimits::default(), |_, _| Act::Succeed);
    (work.owner, work.lost_claims) = (WORKER, AtomicUsize::new(2));
    let lease = work.limits.lease;
    let work = Arc::new(work);
    let (_stopper, stop) = Stopper::new();
    let (_wake, wakes) = watch::channel(0);
    let drained = run_worker(work.clone(), wakes, stop, Until::Drained);
    tokio::time::timeout(lease / 6, drained).await.expect("nobody waits for the lease to end");
    assert_eq!(work.in_status(Status::Done), 6);
    assert!(work.numbers().values().all(|number| number.attempts == 1), "nothing was lost");
    assert_eq!(work.handed_back.load(Ordering::SeqCst), 12);
}

// RUN-7
#[tokio::test(start_paused = true)]
async fn a_worker_that_stops_after_a_claim_without_an_answer_releases_what_it_holds() {
    let mut work = TinyWork::new(6, WorkerLimits::default(), |_, _| Act::Succeed);
    (work.owner, work.lost_claims) = (WORKER, AtomicUsize::new(1));
    work.claims_take = Duration::from_secs(3);
    let work = Arc::new(work);
    let (stopper, stop) = Stopper::new();
    let (_wake, wakes) = watch::channel(0);
    let running = tokio::spawn(run_worker(work.clone(), wakes, stop, Until::Stopped));
    pass(Duration::from_secs(1)).await;
    stopper.stop();
    running.await.unwrap();
    assert_eq!(work.in_status(Status::Ready), 6);
    assert!(work.numbers().values().all(|number| number.attempts == 0));
}

/// A result that the store refuses belongs to an attempt that did begin.
// RUN-7
#[tokio::test(start_paused = true)]
async fn a_unit_whose_result_was_refused_is_not_taken_for_one_that_never_began() {
    let mut work = TinyWork::new(2, WorkerLimits::default(), |_, _| Act::Succeed);
    (work.owner, work.poison) = (WORKER, Some(1));
    let work = Arc::new(work);
    let (stopper, stop) = Stopper::new();
    let (_wake, wakes) = watch::channel(0);
    let running = tokio::spawn(run_worker(work.clone(), wakes, stop, Until::Stopped));
    pass(work.limits.lease * 2).await;
    stopper.stop();
    running.await.unwrap();
    assert_eq!(work.handed_back.load(Ordering::SeqCst), 0, "it was not released");
}

/// Starts two workers whose renewals keep another rhythm than their reapers. After a while the store takes no writes, and
/// after an outage it does again.
async fn fill_up(before: Duration, outage: impl AsyncFnOnce()) {
    let mut work = TinyWork::new(4, WorkerLimits::default(), |_, _| Act::Linger(OUTAGE));
    work.writes_take = Duration::from_millis(1_700);
    let work = Arc::new(work);
    let workers = start_two(&work).await;
    pass(before).await;
    work.full.store(true, Ordering::SeqCst);
    outage().await;
    work.full.store(false, Ordering::SeqCst);
    pass(work.limits.lease / 3).await;
    assert!(work.numbers().values().all(|number| number.attempts == 0), "nobody was lost");
    workers.iter().for_each(JoinHandle::abort);
}

/// Space returns just before the reaper looks: the holders have not renewed yet.
// RUN-7
#[tokio::test(start_paused = true)]
async fn nobody_is_lost_just_because_the_reaper_writes_first_when_the_store_takes_writes_again() {
    for outage in (60_000..140_000).step_by(250).map(Duration::from_millis) {
        fill_up(Duration::from_millis(1_700), async || pass(outage).await).await;
    }
}

/// All processes were suspended, and resume while the store takes no writes.
// RUN-7
#[tokio::test(start_paused = true)]
async fn a_suspended_worker_that_resumes_in_an_outage_takes_nobody_for_lost_after_it() {
    let lease = WorkerLimits::default().lease;
    for outage in (0..60_000).step_by(250).map(Duration::from_millis) {
        // Each reaper has made its first write before.
        let suspended = async || {
            tokio::time::advance(lease * 2).await;
            pass(outage).await;
        };
        fill_up(lease * 2, suspended).await;
    }
}

/// It knows nothing of the outage, and the holders have not renewed yet.
// RUN-7
#[tokio::test(start_paused = true)]
async fn a_worker_that_starts_when_the_store_takes_writes_again_takes_nobody_for_lost() {
    let work = tiny(4, |_, _| Act::Linger(OUTAGE));
    let mut workers = start_two(&work).await;
    work.full.store(true, Ordering::SeqCst);
    pass(work.limits.lease * 2).await;
    work.full.store(false, Ordering::SeqCst);
    workers.extend(start_two(&work).await);
    pass(work.limits.lease / 3).await;
    assert!(work.numbers().values().all(|number| number.attempts == 0), "nobody was lost");
    workers.iter().for_each(JoinHandle::abort);
}

/// A full disk, say, for ten minutes.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_tried_costs_nothing_and_is_tried_now_and_then_until_it_can() {
    let (room, tries) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let act = {
        let (room, tries) = (room.clone(), tries.clone());
        move |_, _| {
            tries.fetch_add(1, Ordering::SeqCst);
            if room.load(Ordering::SeqCst) { Act::Succeed } else { Act::Unable }
        }
    };
    let work = tiny(20, act);
    let workers = start_two(&work).await;
    pass(Duration::from_secs(600)).await;
    assert!(work.numbers().values().all(|number| number.attempts == 0), "nothing is counted");
    // Four at once on each of two workers, after pauses of 1, 2, 4, 8, 16 and then 30 seconds.
    let tried = tries.load(Ordering::SeqCst);
    assert!((40..=2 * 4 * 26).contains(&tried), "tried {tried} times");
    room.store(true, Ordering::SeqCst);
    let done = futures_util::future::join_all(workers);
    tokio::time::timeout(Duration::from_secs(31), done).await.expect("it goes on by itself");
    assert_eq!(work.in_status(Status::Done), 20);
    assert!(work.numbers().values().all(|number| number.attempts == 1));
}

// OPS-6
#[tokio::test(start_paused = true)]
async fn a_worker_that_is_told_to_stop_meanwhile_waits_no_longer_than_a_lease() {
    let work = tiny(1, |_, _| Act::Take(Duration::from_secs(2)));
    let (stopper, stop) = Stopper::new();
    let (_wake, wakes) = watch::channel(0);
    let running = tokio::spawn(run_worker(work.clone(), wakes, stop, Until::Stopped));
    pass(Duration::from_secs(1)).await;
    work.away.store(true, Ordering::SeqCst);
    pass(Duration::from_secs(5)).await;
    stopper.stop();
    let limit = work.limits.lease + work.limits.grace * 2;
    tokio::time::timeout(limit, running).await.expect("it stops").unwrap();
}
