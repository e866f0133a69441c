//! Ends the attempts of lost workers.
//!
//! A process runs one reaper for each kind of unit; it serves all queues, sources or stages of that kind. It is a loop,
//! never a step at start-up, and several reapers do no harm: each result is guarded by the lease that it was read with. A
//! lost worker is a failure like any other and goes through the same decision, so a unit that kills every worker is given
//! up within its budget.
//!
//! A worker is lost if it is silent while the store can hear it. So before an attempt is counted as lost:
//!
//! - **The store answered, and its clock advanced steadily, for half a lease.** When the store was unavailable, or its
//!   clock was set forward, every lease may have ended without a lost worker: the holders get time to renew, to write
//!   results and to release what they stopped. Where the clock can be set, a new reaper waits as long, because it does
//!   not know. So does a reaper that was not scheduled for a while: other workers may have been suspended with it.
//! - **The store took a write a sixth of a lease ago, or takes one without waiting.** It may answer reads and take no
//!   writes, because its disk is full or another process holds its lock; pending renewals are written by then. To
//!   avoid that wait, the reaper writes to a lease shortly before its end: a healthy holder renews much earlier. That
//!   write changes nothing, since lease ends only move forward.
//!
//! Leases of one kind may differ in length, so each queue, source or stage has its own wait, measured in its own lease.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::future::try_join_all;
use jiff::Timestamp;
use redrive_retry::{Stop, monotonic};
use redrive_store::{ExpiredLease, LeaseRef, Result, Written};
use tokio::{sync::Mutex, time::Instant};

use crate::worker::{
    finisher::report_finish,
    held_leases::HeldLeases,
    lease_clock::{ClockReading, later, lease_margin},
    unit_leases::UnitLeases,
    work::Work,
};

/// Ended leases that are read at a time.
const PAGE: u32 = 500;

/// Before the end of every lease; some ends are stored as 1970.
const THE_BEGINNING: Timestamp = Timestamp::constant(-1, 0);

/// The reapers of a process.
#[derive(Default)]
pub(crate) struct Reapers {
    pub(crate) runs: Reaper,
    pub(crate) partitions: Reaper,
    pub(crate) samples: Reaper,
    pub(crate) sources: Reaper,
}

impl Reapers {
    /// Runs every reaper that has something to reap, until stopped.
    pub(crate) async fn run(self, stop: Stop) {
        let Self { runs, partitions, samples, sources } = self;
        let run = |reaper: Reaper| reaper.run(stop.clone());
        tokio::join!(run(runs), run(partitions), run(samples), run(sources));
    }
}

/// The reaper of one kind of unit.
#[derive(Default)]
pub(crate) struct Reaper {
    members: Vec<Member>,
    /// Whether the store did not answer the last check.
    unavailable: bool,
    /// The clocks at the last check.
    clock: Option<ClockReading>,
    probe: WriteProbe,
}

/// One queue, source or stage that a reaper serves.
struct Member {
    work: Box<dyn Reaped>,
    lease: Duration,
    /// When there was last a reason to doubt that a silent worker is lost.
    doubt: Option<Instant>,
}

impl Member {
    /// How long no attempt may be counted as lost yet.
    fn wait(&self, write: Option<ProbedWrite>) -> Duration {
        let slow = write.filter(|write| write.took >= self.lease / 2).map(|write| write.at);
        let doubt = self.doubt.max(slow).map(|doubt| doubt.elapsed());
        let wait = doubt.map_or(Duration::ZERO, |since| (self.lease / 2).saturating_sub(since));
        wait.max(write.and_then(|write| write.wait(self.lease)).unwrap_or_default())
    }
}

/// The last write that the store took, and how long it waited.
#[derive(Debug, Clone, Copy)]
struct ProbedWrite {
    at: Instant,
    took: Duration,
}

impl ProbedWrite {
    /// Whether the store took the write without waiting.
    fn was_prompt(self, lease: Duration) -> bool {
        self.took < lease_margin(lease)
    }

    /// How long until all renewals that were pending at this write are written. `None` if the write is so old that a
    /// lease may have ended for lack of another.
    fn wait(self, lease: Duration) -> Option<Duration> {
        let wait = if self.was_prompt(lease) { Duration::ZERO } else { lease_margin(lease) };
        let age = self.at.elapsed();
        (age <= lease / 2).then(|| wait.saturating_sub(age))
    }
}

/// Finds out whether the store takes writes.
#[derive(Default)]
struct WriteProbe(Mutex<Option<ProbedWrite>>);

impl WriteProbe {
    async fn last(&self) -> Option<ProbedWrite> {
        *self.0.lock().await
    }

    /// Writes to a lease without changing it.
    async fn write(
        &self,
        leases: &dyn UnitLeases,
        lease: LeaseRef,
        now: Timestamp,
    ) -> Result<ProbedWrite> {
        let mut last = self.0.lock().await;
        let started = monotonic();
        leases.renew(&[lease], now).await?;
        let write = ProbedWrite { at: monotonic(), took: started.elapsed() };
        *last = Some(write);
        Ok(write)
    }
}

impl Reaper {
    /// Adds a queue, source or stage, with the leases that its own loop holds: those are not lost.
    pub(crate) fn add<W: Work>(&mut self, work: Arc<W>, held: Arc<HeldLeases>) {
        let lease = work.limits().lease;
        let doubt = work.leases().lease_clock_can_be_set().then(monotonic);
        self.members.push(Member { work: Box::new(ReapedWork { work, held }), lease, doubt });
    }

    /// Looks for ended leases until stopped. Every write is guarded, so the reaper may stop anywhere.
    pub(crate) async fn run(self, mut stop: Stop) {
        tokio::select! {
            biased;
            () = stop.stopped() => {}
            () = self.reap() => {}
        }
    }

    async fn reap(mut self) {
        let Some(lease) = self.members.iter().map(|member| member.lease).min() else { return };
        loop {
            let rest = match self.check(lease).await {
                Ok(rest) => rest,
                Err(error) => {
                    if !std::mem::replace(&mut self.unavailable, true) {
                        tracing::warn!(
                            work = self.names(),
                            error = &error as &dyn std::error::Error,
                            "cannot look for lost workers"
                        );
                    }
                    lease / 6
                }
            };
            let asleep = monotonic();
            tokio::time::sleep(rest).await;
            let overslept = asleep.elapsed().saturating_sub(rest);
            self.doubt_if(|member| overslept >= lease_margin(member.lease));
        }
    }

    /// Checks for ended leases once, recovers lost units, and returns how long to rest: until shortly before the next lease
    /// ends, but not much shorter, so that leases that end one after the other are handled together.
    ///
    /// Reads the earliest end first. Usually it is in the future, and nothing else has to be read.
    async fn check(&mut self, lease: Duration) -> Result<Duration> {
        let now = self.read_clock();
        let asked = monotonic();
        let mut next = self.leases()?.next_lease_end(THE_BEGINNING).await?;
        let (took, unavailable) = (asked.elapsed(), std::mem::take(&mut self.unavailable));
        self.doubt_if(|member| unavailable || took >= member.lease / 2);
        let mut longest = lease / 2;
        if next.is_some_and(|end| end <= now) {
            let write = self.probe.last().await;
            let waits = self.members.iter().map(|member| member.wait(write));
            let waits: Vec<Duration> = waits.collect();
            if let Some(wait) = waits.iter().filter(|wait| !wait.is_zero()).min() {
                longest = longest.min(*wait);
            }
            if waits.iter().all(|wait| !wait.is_zero()) {
                return Ok(longest);
            }
            if !self.recover(now, &waits).await? {
                return Ok(lease_margin(lease));
            }
            next = self.leases()?.next_lease_end(now).await?;
        }
        let Some(end) = next else { return Ok(longest) };
        let mut margin = lease_margin(lease);
        if end <= later(now, margin) {
            self.probe_before(end, now, margin).await?;
            margin = Duration::ZERO;
        }
        let left = time_left(end, self.leases()?.lease_now()).saturating_sub(margin);
        Ok(left.max(lease / 60).min(longest))
    }

    /// The leases of all members: they are of one kind, in one store.
    fn leases(&self) -> Result<&dyn UnitLeases> {
        let first = self.members.first();
        first.map(|member| member.work.leases()).ok_or_else(|| {
            redrive_store::Error::misuse("looking for lost workers", "there is nothing to reap")
        })
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.members.iter().map(|member| member.work.name()).collect();
        names.join(", ")
    }

    fn doubt_if(&mut self, reason: impl Fn(&Member) -> bool) {
        for member in &mut self.members {
            if reason(member) {
                member.doubt = Some(monotonic());
            }
        }
    }

    /// The time that a whole check uses.
    fn read_clock(&mut self) -> Timestamp {
        let Ok(leases) = self.leases() else { return Timestamp::MIN };
        let now = ClockReading::now(leases.lease_now());
        if let Some(last) = self.clock.replace(now) {
            let jumped = |member: &Member| now.has_jumped_since(&last, lease_margin(member.lease));
            if self.members.iter().any(jumped) {
                tracing::warn!(
                    work = self.names(),
                    "the lease clock was set forward; no worker is considered lost yet"
                );
            }
            self.doubt_if(jumped);
        }
        now.shared
    }

    /// Writes to the lease that is about to end, unless the store took a write recently.
    async fn probe_before(&self, end: Timestamp, now: Timestamp, margin: Duration) -> Result<()> {
        let recent = self.probe.last().await.is_some_and(|last| last.at.elapsed() <= margin * 2);
        let leases = self.leases()?;
        if !recent && let Some(ending) = leases.expired(end, i64::MIN, 1).await?.first() {
            self.probe.write(leases, ending.lease, now).await?;
        }
        Ok(())
    }

    /// Recovers every unit whose lease has ended and whose member need not wait; `false` if the store takes no writes.
    /// Pages advance by id, so that units which nobody here serves never hide the rest.
    async fn recover(&self, now: Timestamp, waits: &[Duration]) -> Result<bool> {
        let ready = self.members.iter().zip(waits).filter(|(_, wait)| wait.is_zero());
        let ready: Vec<&Member> = ready.map(|(member, _)| member).collect();
        let mut after = i64::MIN;
        loop {
            let expired = self.leases()?.expired(now, after, PAGE).await?;
            let Some(last) = expired.last() else { return Ok(true) };
            redrive_store::failpoint!("engine.reap.looked");
            after = last.lease.id;
            let recoveries = ready.iter().map(|it| it.work.recover(&expired, now, &self.probe));
            if try_join_all(recoveries).await?.contains(&Recovery::NoWrites) {
                return Ok(false);
            }
        }
    }
}

/// What came of a recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recovery {
    Done,
    /// The store takes no writes without waiting, so no worker may be considered lost yet.
    NoWrites,
}

/// Work as its reaper sees it, of whatever type.
#[async_trait]
trait Reaped: Send + Sync {
    fn name(&self) -> &str;

    fn leases(&self) -> &dyn UnitLeases;

    /// Decides about the units of this work among those whose lease has ended, and writes the results.
    async fn recover(
        &self,
        expired: &[ExpiredLease],
        now: Timestamp,
        probe: &WriteProbe,
    ) -> Result<Recovery>;
}

struct ReapedWork<W> {
    work: Arc<W>,
    held: Arc<HeldLeases>,
}

#[async_trait]
impl<W: Work> Reaped for ReapedWork<W> {
    fn name(&self) -> &str {
        self.work.name()
    }

    fn leases(&self) -> &dyn UnitLeases {
        self.work.leases()
    }

    /// What the store refuses is written one by one, so that one bad row blocks no other.
    async fn recover(
        &self,
        expired: &[ExpiredLease],
        now: Timestamp,
        probe: &WriteProbe,
    ) -> Result<Recovery> {
        let lost = expired.iter().filter(|expired| !self.held.contains(expired.lease));
        let lost: Vec<ExpiredLease> = lost.cloned().collect();
        let refusal = match self.recover_together(&lost, now, probe).await {
            Err(refusal) if !refusal.is_transient() => refusal,
            answer => return answer,
        };
        if let [one] = &lost[..] {
            tracing::error!(
                work = self.work.name(),
                id = one.lease.id,
                error = &refusal as &dyn std::error::Error,
                "the store refused to recover a unit whose worker was lost"
            );
            return Ok(Recovery::Done);
        }
        for one in lost.chunks(1) {
            if self.recover(one, now, probe).await? == Recovery::NoWrites {
                return Ok(Recovery::NoWrites);
            }
        }
        Ok(Recovery::Done)
    }
}

impl<W: Work> ReapedWork<W> {
    async fn recover_together(
        &self,
        lost: &[ExpiredLease],
        now: Timestamp,
        probe: &WriteProbe,
    ) -> Result<Recovery> {
        let (work, lease) = (&*self.work, self.work.limits().lease);
        let finishes = work.complete_lost(lost).await?;
        redrive_store::failpoint!("engine.reap.decided");
        let Some(first) = finishes.first() else { return Ok(Recovery::Done) };
        let recent = probe.last().await.and_then(|write| write.wait(lease));
        if recent != Some(Duration::ZERO) {
            let write = probe.write(work.leases(), work.finish_lease(first), now).await?;
            if !write.was_prompt(lease) {
                return Ok(Recovery::NoWrites);
            }
        }
        let written = work.finish(&finishes).await?;
        redrive_store::failpoint!("engine.reap.written");
        let mut recovered = false;
        for (finish, written) in finishes.iter().zip(written) {
            report_finish(work, finish, written);
            recovered |= written == Written::Applied;
        }
        if recovered {
            self.held.wake();
        }
        Ok(Recovery::Done)
    }
}

fn time_left(end: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(end.duration_since(now)).unwrap_or_default()
}
