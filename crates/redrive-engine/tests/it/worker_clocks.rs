//! A clock of leases that somebody sets forward, as a server's can be: by it every lease has ended, and nobody
//! was lost.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use jiff::Timestamp;
use proptest::prelude::*;
use redrive_engine::{
    Completion, Outcome, Stop, Stopper, UnitLeases, Until, Work, WorkerLimits, run_worker,
};
use redrive_store::{Backlog, ExpiredLease, LeaseRef, Result, WorkerId, Written};
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    tiny_work::{Act, End, Status, TinyWork},
    worker_loop::pass,
};

/// How far the server's clock was set forward, in seconds.
type Ahead = Arc<AtomicU64>;

/// The work as one host sees it, with what that host knows of the server's clock.
struct Host {
    work: Arc<TinyWork>,
    server: Ahead,
    /// What it last heard of it.
    heard: AtomicU64,
    /// Whether it hears of it at once, or when it renews.
    alert: AtomicBool,
}

impl Host {
    fn start(work: &Arc<TinyWork>, server: &Ahead, alert: bool) -> JoinHandle<()> {
        let heard = AtomicU64::new(server.load(Ordering::SeqCst));
        let (work, server, alert) = (work.clone(), server.clone(), AtomicBool::new(alert));
        let host = Arc::new(Self { work, server, heard, alert });
        tokio::spawn(async move {
            let (_stopper, stop) = Stopper::new();
            let (_wake, wakes) = watch::channel(0);
            run_worker(host, wakes, stop, Until::Drained).await;
        })
    }

    fn hear(&self) {
        self.heard.store(self.server.load(Ordering::SeqCst), Ordering::SeqCst);
    }
}

#[async_trait]
impl UnitLeases for Host {
    fn worker(&self) -> &WorkerId {
        self.work.worker()
    }

    fn now(&self) -> Timestamp {
        self.work.now()
    }

    fn lease_now(&self) -> Timestamp {
        if self.alert.load(Ordering::SeqCst) {
            self.hear();
        }
        self.work.now() + Duration::from_secs(self.heard.load(Ordering::SeqCst))
    }

    async fn renew(&self, leases: &[LeaseRef], until: Timestamp) -> Result<Vec<Written>> {
        let written = self.work.renew(leases, until).await;
        self.hear();
        written
    }

    async fn release(&self, leases: &[LeaseRef], why: &str) -> Result<Vec<Written>> {
        self.work.release(leases, why).await
    }

    async fn expired(
        &self,
        by: Timestamp,
        owner: Option<&WorkerId>,
        after: i64,
        limit: u32,
    ) -> Result<Vec<ExpiredLease>> {
        self.work.expired(by, owner, after, limit).await
    }

    async fn next_lease_end(&self, after: Timestamp) -> Result<Option<Timestamp>> {
        self.work.next_lease_end(after).await
    }
}

#[async_trait]
impl Work for Host {
    type Unit = (LeaseRef, u32);
    type Outcome = Outcome;
    type Finish = End;

    fn name(&self) -> &str {
        self.work.name()
    }

    fn limits(&self) -> WorkerLimits {
        self.work.limits
    }

    fn leases(&self) -> &dyn UnitLeases {
        self
    }

    async fn claim(&self, limit: u32, until: Timestamp) -> Result<Vec<(LeaseRef, u32)>> {
        self.work.claim(limit, until).await
    }

    fn lease(&self, unit: &(LeaseRef, u32)) -> LeaseRef {
        unit.0
    }

    async fn handle(&self, unit: &(LeaseRef, u32), stop: Stop) -> Outcome {
        self.work.handle(unit, stop).await
    }

    fn complete(
        &self,
        unit: &(LeaseRef, u32),
        outcome: Outcome,
        started_at: Timestamp,
        ended_at: Timestamp,
    ) -> Completion<End> {
        self.work.complete(unit, outcome, started_at, ended_at)
    }

    fn finish_lease(&self, end: &End) -> LeaseRef {
        self.work.finish_lease(end)
    }

    async fn finish(&self, ends: &[End]) -> Result<Vec<Written>> {
        self.work.finish(ends).await
    }

    fn log_finish(&self, end: &End, written: Written) {
        self.work.log_finish(end, written);
    }

    async fn complete_lost(&self, expired: &[ExpiredLease]) -> Result<Vec<End>> {
        self.work.complete_lost(expired).await
    }

    async fn backlog(&self) -> Result<Backlog> {
        self.work.backlog().await
    }
}

const UNITS: i64 = 6;

/// Three hosts at work, the last of which begins only then, while the server's clock is set forward by each amount
/// after each wait. Hosts that are not alert hear of it when they renew.
async fn set_forward(lease: Duration, jumps: Vec<(Duration, u64)>, late: Duration, alert: bool) {
    let limits = WorkerLimits { concurrency: 3, lease, ..WorkerLimits::default() };
    let length = lease * 12;
    let work = Arc::new(TinyWork::new(UNITS, limits, move |_, _| Act::TakeOrStop(length)));
    let server = Ahead::default();
    let mut hosts = vec![Host::start(&work, &server, alert), Host::start(&work, &server, false)];
    for (wait, seconds) in jumps {
        pass(wait).await;
        server.fetch_add(seconds, Ordering::SeqCst);
    }
    pass(late).await;
    hosts.push(Host::start(&work, &server, true));
    for host in hosts {
        host.await.unwrap();
    }
    assert_eq!(work.in_status(Status::Done), UNITS as usize);
    assert!(work.numbers().values().all(|number| number.attempts == 1), "nobody was lost");
    assert_eq!(work.handed_back.load(Ordering::SeqCst), 0, "nothing was stopped for it");
    assert_eq!(work.stale.load(Ordering::SeqCst), 0);
}

fn in_virtual_time(world: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap().block_on(world);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    // RUN-7
    #[test]
    fn a_server_whose_clock_is_set_forward_loses_nobody_their_work(
        lease in prop::sample::select(vec![2_000, 10_000, 60_000]),
        jumps in prop::collection::vec((0..1_000u64, prop::sample::select(vec![90, 3_600, 315_360_000])), 1..4),
        late in 0..1_000u64,
        alert: bool,
    ) {
        // Waits are in thousandths of five leases.
        let wait = |part: u64| Duration::from_millis(lease * 5 * part / 1_000);
        let jumps = jumps.into_iter().map(|(part, seconds)| (wait(part), seconds)).collect();
        in_virtual_time(set_forward(Duration::from_millis(lease), jumps, wait(late), alert));
    }
}

// RUN-7
#[tokio::test(start_paused = true)]
async fn a_worker_that_is_lost_when_a_clock_is_set_forward_is_noticed_half_a_lease_later() {
    let work = Arc::new(TinyWork::new(1, WorkerLimits::default(), |_, _| Act::Succeed));
    let lease = work.limits.lease;
    let server = Ahead::default();
    work.numbers().get_mut(&1).unwrap().status = Status::Held { until: work.now() + lease * 2 };
    let host = Host::start(&work, &server, true);
    pass(lease).await;
    server.store(3_600, Ordering::SeqCst);
    // It looks at least every half a lease.
    tokio::time::timeout(lease + lease / 60, host).await.expect("it is brought back").unwrap();
    assert_eq!(work.numbers()[&1].attempts, 2, "the lost attempt counts");
}

// RUN-7
#[tokio::test(start_paused = true)]
async fn what_a_lost_worker_held_is_back_a_second_after_its_lease_though_every_write_is_slow() {
    // By a sixth of the lease a write counts as one that had to wait.
    for slow in [0, 100, 340, 400, 450].map(Duration::from_millis) {
        let lease = Duration::from_secs(2);
        let limits = WorkerLimits { lease, ..WorkerLimits::default() };
        let mut slow_work = TinyWork::new(5, limits, |_, _| Act::Take(Duration::from_secs(3_600)));
        slow_work.writes_take = slow;
        let work = Arc::new(slow_work);
        // One worker is busy with the others, one has nothing to do.
        let until = work.now() + lease;
        work.numbers().get_mut(&1).unwrap().status = Status::Held { until };
        let (_stopper, stop) = Stopper::new();
        let (_wake, wakes) = watch::channel(0);
        for _ in 0..2 {
            tokio::spawn(run_worker(work.clone(), wakes.clone(), stop.clone(), Until::Stopped));
        }
        pass(lease + Duration::from_secs(1)).await;
        assert_eq!(work.numbers()[&1].attempts, 1, "with writes of {slow:?}");
        pass(lease * 20).await;
        let lost = work.numbers().range(2..).any(|(_, number)| number.attempts > 0);
        assert!(!lost, "who works is not lost, with writes of {slow:?}");
    }
}
