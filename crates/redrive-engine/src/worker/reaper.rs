//! Ends the attempts of lost workers.
//!
//! A process runs one reaper for each kind of unit; it serves all queues, sources or stages of that kind that have the
//! same lease. It is a loop, never a step at start-up, and several reapers do no harm: each result is guarded by the lease
//! that it was read with. A lost worker is a failure like any other and goes through the same decision, so a unit that
//! kills every worker is given up within its budget.
//!
//! A worker is lost if it is silent while the store can hear it. So before an attempt is counted as lost, the store took
//! a write a sixth of a lease ago, or takes one without waiting. It may answer reads and take no writes, because its disk
//! is full or another process holds its lock; pending renewals are written by then.
//!
//! **The first write after a doubt begins a wait of half a lease**, in which holders renew, write results and release what
//! they stopped. There is doubt when a write failed, when the store did not answer in time, when its clock was set
//! forward, and when the reaper was not scheduled for a while: then every lease may have ended without a lost worker. A
//! new reaper is in doubt because it does not know. The reaper makes that write at once. Later it writes to a lease
//! shortly before its end, because a healthy holder renews much earlier. These writes change nothing, since lease ends
//! only move forward.
//!
//! Each queue, source or stage recovers its units in a task: a validator that takes long, fails or panics delays no other
//! source.

use std::{collections::HashSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_retry::{Stop, monotonic};
use redrive_store::{ExpiredLease, LeaseRef, Result, Written};
use tokio::{sync::Mutex, task::JoinSet, time::timeout_at};

use crate::worker::{
    finisher::report_finish,
    held_leases::HeldLeases,
    known_leases::KnownLeases,
    lease_clock::{ClockReading, later, lease_margin},
    unit_leases::UnitLeases,
    work::Work,
    write_probe::WriteProbe,
};

/// Ended leases that are read at a time.
const PAGE: u32 = 500;

/// Before the end of every lease; some ends are stored as 1970.
const THE_BEGINNING: Timestamp = Timestamp::constant(-1, 0);

/// The reapers of a process, by kind of unit.
#[derive(Default)]
pub(crate) struct Reapers {
    pub(crate) runs: KindReapers,
    pub(crate) partitions: KindReapers,
    pub(crate) samples: KindReapers,
    pub(crate) sources: KindReapers,
}

impl Reapers {
    pub(crate) async fn run(self, stop: Stop) {
        let Self { runs, partitions, samples, sources } = self;
        let kinds = [runs, partitions, samples, sources].map(|kind| kind.run(stop.clone()));
        futures_util::future::join_all(kinds).await;
    }
}

/// The reapers of one kind of unit, one for each length of lease: usually one.
#[derive(Default)]
pub(crate) struct KindReapers {
    members: Vec<Arc<dyn Reaped>>,
    reapers: Vec<Reaper>,
}

impl KindReapers {
    /// Adds a queue, source or stage, with the leases that its own loop holds: those are not lost.
    pub(crate) fn add<W: Work>(&mut self, work: Arc<W>, held: Arc<HeldLeases>) {
        let lease = work.limits().lease;
        let work: Arc<dyn Reaped> = Arc::new(ReapedWork { work, held, turn: Mutex::default() });
        self.members.push(work.clone());
        match self.reapers.iter_mut().find(|reaper| reaper.lease == lease) {
            Some(reaper) => reaper.members.push(work),
            None => self.reapers.push(Reaper::new(lease, work)),
        }
    }

    /// Looks for ended leases until stopped. Every write is guarded, so reapers may stop anywhere. What is left of claims
    /// without an answer is released at the end.
    pub(crate) async fn run(self, mut stop: Stop) {
        let known = Arc::new(KnownLeases(self.members));
        let mut reapers = JoinSet::new();
        for reaper in self.reapers {
            reapers.spawn(reaper.reap(known.clone()));
        }
        tokio::select! {
            biased;
            () = stop.stopped() => {}
            Some(Err(error)) = reapers.join_next() => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "a reaper panicked; restart the process"
                );
                stop.stopped().await;
            }
        }
        reapers.shutdown().await;
        known.release_before_stopping().await;
    }
}

/// The reaper of one kind of unit and one length of lease.
struct Reaper {
    lease: Duration,
    /// Reads the leases of the kind: all members have one store.
    reads: Arc<dyn Reaped>,
    /// The queues, sources or stages that it serves.
    members: Vec<Arc<dyn Reaped>>,
    /// Whether the store did not answer the last check.
    unavailable: bool,
    /// The clocks at the last check.
    clock: Option<ClockReading>,
    probe: Arc<WriteProbe>,
    recoveries: JoinSet<Result<()>>,
}

impl Reaper {
    fn new(lease: Duration, work: Arc<dyn Reaped>) -> Self {
        Self {
            lease,
            reads: work.clone(),
            members: vec![work],
            unavailable: false,
            clock: None,
            probe: Arc::default(),
            recoveries: JoinSet::new(),
        }
    }

    async fn reap(mut self, known: Arc<KnownLeases>) {
        loop {
            let rest = match self.check(&known).await {
                Ok(rest) => rest,
                Err(error) => {
                    if !std::mem::replace(&mut self.unavailable, true) {
                        tracing::warn!(
                            work = self.names(),
                            error = &error as &dyn std::error::Error,
                            "cannot look for lost workers; trying again"
                        );
                    }
                    self.lease / 6
                }
            };
            let asleep = monotonic();
            tokio::select! {
                biased;
                () = known.doubted() => {}
                () = tokio::time::sleep(rest) => {}
            }
            if asleep.elapsed() >= rest.saturating_add(lease_margin(self.lease)) {
                self.probe.failed().await;
            }
        }
    }

    /// Checks for ended leases once, recovers lost units, and returns how long to rest: until shortly before the next lease
    /// ends, but not much shorter, so that leases that end one after the other are handled together.
    ///
    /// Reads the earliest end first. Usually it is in the future, and nothing else has to be read.
    async fn check(&mut self, known: &KnownLeases) -> Result<Duration> {
        let (lease, mut margin) = (self.lease, lease_margin(self.lease));
        let now = self.read_clock().await;
        let mut next = self.timed(self.leases().next_lease_end(THE_BEGINNING)).await?;
        if std::mem::take(&mut self.unavailable) {
            self.probe.failed().await;
        }
        if known.is_in_doubt() {
            self.timed(known.release_unknown()).await?;
        }
        // The wait begins with the first write, so that it should not be left until a lease ends.
        if let Some(end) = next
            && self.probe.last().await.is_none()
        {
            self.probe_before(end, now, margin).await?;
        }
        if next.is_some_and(|end| end <= now) {
            if self.wait().await.is_zero() {
                self.recover(now, known).await?;
            }
            let wait = self.wait().await;
            if !wait.is_zero() {
                return Ok(wait);
            }
            next = self.timed(self.leases().next_lease_end(now)).await?;
        } else {
            known.forget_refused(&HashSet::new());
        }
        let longest = if known.is_in_doubt() { lease_margin(lease) } else { lease / 2 };
        let Some(end) = next else { return Ok(longest) };
        if end <= later(now, margin) {
            self.probe_before(end, now, margin).await?;
            margin = Duration::ZERO;
        }
        let left = time_left(end, self.leases().lease_now()).saturating_sub(margin);
        Ok(left.clamp(lease / 60, longest))
    }

    fn leases(&self) -> &dyn UnitLeases {
        self.reads.leases()
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.members.iter().map(|member| member.name()).collect();
        names.join(", ")
    }

    /// How long no attempt may be counted as lost yet.
    async fn wait(&self) -> Duration {
        let write = self.probe.last().await.and_then(|write| write.wait(self.lease));
        write.unwrap_or_default()
    }

    /// The time that a whole check uses.
    async fn read_clock(&mut self) -> Timestamp {
        let now = ClockReading::now(self.leases().lease_now());
        let last = self.clock.replace(now);
        if last.is_some_and(|last| now.has_jumped_since(&last, lease_margin(self.lease))) {
            tracing::warn!(
                work = self.names(),
                "the lease clock was set forward; no worker is considered lost yet"
            );
            self.probe.failed().await;
        }
        now.shared
    }

    /// Writes to the lease that is about to end, unless the store took a write recently.
    async fn probe_before(&self, end: Timestamp, now: Timestamp, margin: Duration) -> Result<()> {
        let recent = self.probe.last().await.is_some_and(|last| last.at.elapsed() <= margin * 2);
        let leases = self.leases();
        if !recent
            && let Some(ending) = self.timed(leases.expired(end, None, i64::MIN, 1)).await?.first()
        {
            self.probe.write(leases, ending.lease, now, self.lease).await?;
        }
        Ok(())
    }

    /// Waits for an answer of the store. There is doubt about a store that takes half a lease to answer.
    async fn timed<T>(&self, answer: impl Future<Output = Result<T>>) -> Result<T> {
        let asked = monotonic();
        let answer = answer.await;
        if asked.elapsed() >= self.lease / 2 {
            self.probe.failed().await;
        }
        answer
    }

    /// Recovers every unit whose lease has ended. Pages advance by id, so that units which nobody here serves never hide
    /// the rest. Recoveries that take longer than half a lease go on by themselves.
    async fn recover(&mut self, now: Timestamp, known: &KnownLeases) -> Result<()> {
        let deadline = monotonic() + self.lease / 2;
        let (mut after, mut refused) = (i64::MIN, HashSet::new());
        loop {
            let expired = self.timed(self.leases().expired(now, None, after, PAGE)).await?;
            let Some(last) = expired.last() else {
                known.forget_refused(&refused);
                return Ok(());
            };
            redrive_store::failpoint!("engine.reap.looked");
            after = last.lease.id;
            let leases = expired.iter().map(|expired| expired.lease);
            refused.extend(leases.filter(|lease| known.was_refused(*lease)));
            let (unknown, expired): (Vec<_>, Vec<_>) = expired
                .into_iter()
                .filter(|expired| !known.contains(expired.lease))
                .partition(|expired| known.never_began(expired));
            self.timed(known.release(&unknown)).await?;
            let expired: Arc<[ExpiredLease]> = expired.into();
            let mut of_page = HashSet::new();
            for member in &self.members {
                let (work, page) = (member.clone(), expired.clone());
                let probe = self.probe.clone();
                let recovery = async move { work.recover(&page, now, &probe).await };
                of_page.insert(self.recoveries.spawn(recovery).id());
            }
            let mut answer = Ok(());
            // Recoveries of earlier checks may take longer than those of this page.
            while !of_page.is_empty()
                && let ended = timeout_at(deadline, self.recoveries.join_next_with_id()).await
                && let Ok(Some(ended)) = ended
            {
                match ended {
                    Ok((id, ended)) if of_page.remove(&id) => answer = answer.and(ended),
                    Ok(_) => {}
                    Err(error) => {
                        of_page.remove(&error.id());
                        tracing::error!(
                            work = self.names(),
                            error = &error as &dyn std::error::Error,
                            "recovering the units of lost workers panicked"
                        );
                    }
                }
            }
            answer?;
            if !self.wait().await.is_zero() {
                return Ok(());
            }
        }
    }
}

/// Work as its reaper sees it, of whatever type.
#[async_trait]
pub(crate) trait Reaped: Send + Sync {
    fn name(&self) -> &str;

    fn lease(&self) -> Duration;

    fn leases(&self) -> &dyn UnitLeases;

    /// The leases of its own loop.
    fn held(&self) -> &HeldLeases;

    /// Whether its own loop has the lease, or another loop is about to hand it over.
    fn knows(&self, lease: LeaseRef) -> bool;

    /// Decides about the units of this work among those whose lease has ended, and writes the results if the store takes
    /// writes. Does nothing while it is still busy with earlier ones.
    async fn recover(
        &self,
        lost: &[ExpiredLease],
        now: Timestamp,
        probe: &WriteProbe,
    ) -> Result<()>;
}

struct ReapedWork<W> {
    work: Arc<W>,
    held: Arc<HeldLeases>,
    turn: Mutex<()>,
}

#[async_trait]
impl<W: Work> Reaped for ReapedWork<W> {
    fn name(&self) -> &str {
        self.work.name()
    }

    fn lease(&self) -> Duration {
        self.work.limits().lease
    }

    fn leases(&self) -> &dyn UnitLeases {
        self.work.leases()
    }

    fn held(&self) -> &HeldLeases {
        &self.held
    }

    fn knows(&self, lease: LeaseRef) -> bool {
        // In this order: a unit that is handed over is held before it is no longer expected.
        let expected = self.work.handoff().is_some_and(|handoff| handoff.expects(lease));
        expected || self.held.contains(lease)
    }

    async fn recover(
        &self,
        lost: &[ExpiredLease],
        now: Timestamp,
        probe: &WriteProbe,
    ) -> Result<()> {
        let Ok(_turn) = self.turn.try_lock() else { return Ok(()) };
        match self.recover_together(lost, now, probe).await {
            Err(refusal) if !refusal.is_transient() => {}
            answer => return answer,
        }
        // The store refused: one by one, so that one bad row blocks no other.
        for one in lost.chunks(1) {
            match self.recover_together(one, now, probe).await {
                Err(refusal) if !refusal.is_transient() => tracing::error!(
                    work = self.work.name(),
                    id = one.first().map(|one| one.lease.id),
                    error = &refusal as &dyn std::error::Error,
                    "the store refused to recover a unit whose worker was lost"
                ),
                answer => answer?,
            }
        }
        Ok(())
    }
}

impl<W: Work> ReapedWork<W> {
    async fn recover_together(
        &self,
        lost: &[ExpiredLease],
        now: Timestamp,
        probe: &WriteProbe,
    ) -> Result<()> {
        let (work, lease) = (&*self.work, self.work.limits().lease);
        let finishes = work.complete_lost(lost).await?;
        redrive_store::failpoint!("engine.reap.decided");
        let Some(first) = finishes.first() else { return Ok(()) };
        if !probe.is_prompt(work.leases(), work.finish_lease(first), now, lease).await? {
            return Ok(());
        }
        let written = match work.finish(&finishes).await {
            Err(error) if error.is_transient() => {
                probe.failed().await;
                return Err(error);
            }
            written => written?,
        };
        redrive_store::failpoint!("engine.reap.written");
        let mut recovered = false;
        for (finish, written) in finishes.iter().zip(written) {
            report_finish(work, finish, written);
            recovered |= written == Written::Applied;
        }
        if recovered {
            self.held.wake();
        }
        Ok(())
    }
}

fn time_left(end: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(end.duration_since(now)).unwrap_or_default()
}
