//! A second, tiny kind of work: numbers in memory. It shows that the loop knows nothing of runs, and
//! fails on demand where a database would not.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use redrive_core::{Epoch, Failure};
use redrive_engine::{Completion, Outcome, Stop, UnitLeases, Work, WorkerLimits};
use redrive_store::{Backlog, Error, ExpiredLease, LeaseRef, Result, WorkerId, Written};
use tokio::{sync::watch, time::Instant};

/// The id under which this process holds numbers.
pub(crate) const WORKER: &str = "alive";

/// What the handler does with a number at an attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Succeed,
    Fail,
    Panic,
    /// Succeeds after a time.
    Take(Duration),
    /// Succeeds after a time, unless told to stop before.
    TakeOrStop(Duration),
    /// Goes on until told to stop, then stops.
    UntilStopped,
    /// Goes on until told to stop, and takes a time to stop.
    Linger(Duration),
    /// Says that it was stopped, and was not.
    Quit,
    /// Cannot be tried, for a reason that is not the number's.
    Unable,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Status {
    Ready,
    Held { until: Timestamp },
    Done,
    GivenUp,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
    pub(crate) status: Status,
    pub(crate) epoch: i64,
    pub(crate) attempts: u32,
}

/// Numbers that are handled, and everything that happened to them.
pub(crate) struct TinyWork {
    pub(crate) limits: WorkerLimits,
    act: Box<dyn Fn(i64, u32) -> Act + Send + Sync>,
    numbers: Mutex<BTreeMap<i64, Number>>,
    start: Instant,
    worker: WorkerId,
    running: AtomicUsize,
    pub(crate) most_running: AtomicUsize,
    pub(crate) handed_back: AtomicUsize,
    pub(crate) stale: AtomicUsize,
    /// Whether the store is away and answers nothing.
    pub(crate) away: AtomicBool,
    /// Whether the store answers questions and lets writes wait.
    pub(crate) locked: watch::Sender<bool>,
    /// Whether the store answers questions and refuses writes.
    pub(crate) full: AtomicBool,
    /// Writes that fail before one succeeds again, and how.
    pub(crate) failing: Mutex<Vec<Error>>,
    /// A number whose result is refused whenever it is written.
    pub(crate) poison: Option<i64>,
    /// Claims that are made while their answer is lost.
    pub(crate) lost_claims: AtomicUsize,
    /// Who holds what is held.
    pub(crate) owner: &'static str,
    /// How long the answer to a claim is on its way.
    pub(crate) claims_take: Duration,
    /// How long the answer to what is still to do is on its way.
    pub(crate) outlooks_take: Duration,
    /// How long the answer to a write is on its way.
    pub(crate) finishes_take: Duration,
    /// How long every write is on its way there.
    pub(crate) writes_take: Duration,
}

pub(crate) struct End {
    lease: LeaseRef,
    success: bool,
}

impl TinyWork {
    pub(crate) fn new(
        count: i64,
        limits: WorkerLimits,
        act: impl Fn(i64, u32) -> Act + Send + Sync + 'static,
    ) -> Self {
        let fresh = Number { status: Status::Ready, epoch: 0, attempts: 0 };
        Self {
            limits,
            act: Box::new(act),
            numbers: Mutex::new((1..=count).map(|id| (id, fresh)).collect()),
            start: Instant::now(),
            worker: WorkerId(WORKER.to_owned()),
            running: AtomicUsize::new(0),
            most_running: AtomicUsize::new(0),
            handed_back: AtomicUsize::new(0),
            stale: AtomicUsize::new(0),
            away: AtomicBool::new(false),
            locked: watch::Sender::new(false),
            full: AtomicBool::new(false),
            failing: Mutex::new(Vec::new()),
            poison: None,
            lost_claims: AtomicUsize::new(0),
            owner: "lost",
            claims_take: Duration::ZERO,
            outlooks_take: Duration::ZERO,
            finishes_take: Duration::ZERO,
            writes_take: Duration::ZERO,
        }
    }

    pub(crate) fn numbers(&self) -> MutexGuard<'_, BTreeMap<i64, Number>> {
        self.numbers.lock().unwrap()
    }

    pub(crate) fn in_status(&self, status: Status) -> usize {
        self.numbers().values().filter(|number| number.status == status).count()
    }

    /// One more number to handle.
    pub(crate) fn add(&self, id: i64) {
        let fresh = Number { status: Status::Ready, epoch: 0, attempts: 0 };
        self.numbers().insert(id, fresh);
    }

    /// A worker that took everything is lost, and its leases have ended.
    pub(crate) fn lose_all(&self) {
        let until = self.now();
        for number in self.numbers().values_mut() {
            number.status = Status::Held { until };
            number.epoch += 1;
        }
    }

    /// Another worker takes a number away, as if its lease had ended.
    pub(crate) fn steal(&self, id: i64) {
        self.numbers().get_mut(&id).unwrap().epoch += 1;
    }

    fn answers(&self) -> Result<()> {
        if self.away.load(Ordering::SeqCst) { Err(down()) } else { Ok(()) }
    }

    /// Waits until the store takes writes.
    async fn takes_writes(&self) -> Result<()> {
        tokio::time::sleep(self.writes_take).await;
        self.locked.subscribe().wait_for(|locked| !locked).await.unwrap();
        if self.full.load(Ordering::SeqCst) {
            return Err(down());
        }
        self.answers()
    }

    fn guarded(&self, lease: LeaseRef, change: impl FnOnce(&mut Number)) -> Written {
        let mut numbers = self.numbers();
        let number = numbers.get_mut(&lease.id).unwrap();
        let held = matches!(number.status, Status::Held { .. }) && number.epoch == lease.epoch.0;
        if held {
            change(number);
        }
        Written::from_changed(held)
    }
}

pub(crate) fn down() -> Error {
    Error::Unavailable { doing: "writing".to_owned(), source: "the database is down".into() }
}

#[async_trait]
impl UnitLeases for TinyWork {
    fn worker(&self) -> &WorkerId {
        &self.worker
    }

    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::try_from(self.start.elapsed()).unwrap()
    }

    fn lease_now(&self) -> Timestamp {
        self.now()
    }

    async fn renew(&self, leases: &[LeaseRef], until: Timestamp) -> Result<Vec<Written>> {
        self.takes_writes().await?;
        let renew = |lease: &LeaseRef| {
            self.guarded(*lease, |number| {
                if let Status::Held { until: end } = &mut number.status {
                    *end = until.max(*end);
                }
            })
        };
        Ok(leases.iter().map(renew).collect())
    }

    async fn release(&self, leases: &[LeaseRef], _: &str) -> Result<Vec<Written>> {
        self.takes_writes().await?;
        self.handed_back.fetch_add(leases.len(), Ordering::SeqCst);
        let back = |lease: &LeaseRef| self.guarded(*lease, |number| number.status = Status::Ready);
        Ok(leases.iter().map(back).collect())
    }

    async fn next_lease_end(&self, after: Timestamp) -> Result<Option<Timestamp>> {
        self.answers()?;
        let numbers = self.numbers();
        let ends = numbers.values().filter_map(|number| match number.status {
            Status::Held { until } if until > after => Some(until),
            _ => None,
        });
        Ok(ends.min())
    }

    async fn expired(
        &self,
        by: Timestamp,
        owner: Option<&WorkerId>,
        after: i64,
        limit: u32,
    ) -> Result<Vec<ExpiredLease>> {
        self.answers()?;
        if owner.is_some_and(|owner| owner.0 != self.owner) {
            return Ok(Vec::new());
        }
        let numbers = self.numbers();
        let expired = numbers.iter().filter_map(|(id, number)| match number.status {
            Status::Held { until } if until <= by && *id > after => Some(ExpiredLease {
                lease: LeaseRef { id: *id, epoch: Epoch(number.epoch) },
                owner: WorkerId(self.owner.to_owned()),
                until,
                claimed_at: None,
            }),
            _ => None,
        });
        Ok(expired.take(limit as usize).collect())
    }
}

#[async_trait]
impl Work for TinyWork {
    type Unit = (LeaseRef, u32);
    type Outcome = Outcome;
    type Finish = End;

    fn name(&self) -> &str {
        "tiny"
    }

    fn limits(&self) -> WorkerLimits {
        self.limits
    }

    fn leases(&self) -> &dyn UnitLeases {
        self
    }

    async fn claim(&self, limit: u32, until: Timestamp) -> Result<Vec<(LeaseRef, u32)>> {
        self.takes_writes().await?;
        let claimed = {
            let mut numbers = self.numbers();
            let ready = numbers.iter_mut().filter(|(_, number)| number.status == Status::Ready);
            let claim = |(id, number): (&i64, &mut Number)| {
                number.status = Status::Held { until };
                number.epoch += 1;
                (LeaseRef { id: *id, epoch: Epoch(number.epoch) }, number.attempts + 1)
            };
            ready.take(limit as usize).map(claim).collect()
        };
        tokio::time::sleep(self.claims_take).await;
        let lost = self.lost_claims.load(Ordering::SeqCst) > 0;
        if lost {
            self.lost_claims.fetch_sub(1, Ordering::SeqCst);
            return Err(down());
        }
        Ok(claimed)
    }

    fn lease(&self, unit: &(LeaseRef, u32)) -> LeaseRef {
        unit.0
    }

    async fn handle(&self, (lease, attempt): &(LeaseRef, u32), mut stop: Stop) -> Outcome {
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_running.fetch_max(running, Ordering::SeqCst);
        let outcome = match (self.act)(lease.id, *attempt) {
            Act::Succeed => Outcome::Answered { value: None, verdict: None },
            Act::Fail => Outcome::Failed(Failure::exit(1, "failed")),
            Act::Panic => {
                self.running.fetch_sub(1, Ordering::SeqCst);
                panic!("number {}", lease.id)
            }
            Act::Take(time) => {
                tokio::time::timeout(time, std::future::pending::<()>()).await.unwrap_err();
                Outcome::Answered { value: None, verdict: None }
            }
            Act::TakeOrStop(time) => match tokio::time::timeout(time, stop.stopped()).await {
                Ok(()) => Outcome::Stopped,
                Err(_) => Outcome::Answered { value: None, verdict: None },
            },
            Act::UntilStopped => {
                stop.stopped().await;
                Outcome::Stopped
            }
            Act::Linger(time) => {
                stop.stopped().await;
                tokio::time::timeout(time, std::future::pending::<()>()).await.unwrap_err();
                Outcome::Stopped
            }
            Act::Quit => Outcome::Stopped,
            Act::Unable => Outcome::Skipped(String::new()),
        };
        self.running.fetch_sub(1, Ordering::SeqCst);
        outcome
    }

    fn complete(
        &self,
        (lease, _): &(LeaseRef, u32),
        outcome: Outcome,
        _: Timestamp,
        _: Timestamp,
    ) -> Completion<End> {
        match outcome {
            Outcome::Stopped => Completion::Release,
            Outcome::Answered { .. } => Completion::Finish(End { lease: *lease, success: true }),
            Outcome::Failed(_) => Completion::Finish(End { lease: *lease, success: false }),
            Outcome::Skipped(_) => Completion::Backpressure("unable"),
        }
    }

    fn finish_lease(&self, end: &End) -> LeaseRef {
        end.lease
    }

    async fn finish(&self, ends: &[End]) -> Result<Vec<Written>> {
        self.takes_writes().await?;
        if let Some(error) = self.failing.lock().unwrap().pop() {
            return Err(error);
        }
        if ends.iter().any(|end| Some(end.lease.id) == self.poison) {
            return Err(Error::misuse("writing", "poison"));
        }
        let finish = |end: &End| {
            self.guarded(end.lease, |number| {
                number.attempts += 1;
                number.status = match (end.success, number.attempts) {
                    (true, _) => Status::Done,
                    (false, ..3) => Status::Ready,
                    (false, _) => Status::GivenUp,
                };
            })
        };
        let written = ends.iter().map(finish).collect();
        tokio::time::sleep(self.finishes_take).await;
        Ok(written)
    }

    fn log_finish(&self, _: &End, written: Written) {
        self.stale.fetch_add(usize::from(written == Written::Stale), Ordering::SeqCst);
    }

    async fn complete_lost(&self, expired: &[ExpiredLease]) -> Result<Vec<End>> {
        Ok(expired.iter().map(|lost| End { lease: lost.lease, success: false }).collect())
    }

    async fn backlog(&self) -> Result<Backlog> {
        self.answers()?;
        let backlog = {
            let numbers = self.numbers();
            let held = numbers.values().any(|number| matches!(number.status, Status::Held { .. }));
            let ready = numbers.values().any(|number| number.status == Status::Ready);
            Backlog { ready, held, next_due: None }
        };
        tokio::time::sleep(self.outlooks_take).await;
        Ok(backlog)
    }
}

/// A tiny work with a pace that suits most tests.
pub(crate) fn tiny(
    count: i64,
    act: impl Fn(i64, u32) -> Act + Send + Sync + 'static,
) -> Arc<TinyWork> {
    Arc::new(TinyWork::new(count, WorkerLimits { concurrency: 4, ..WorkerLimits::default() }, act))
}
