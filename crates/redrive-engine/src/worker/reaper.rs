//! Ends the attempts of lost workers.
//!
//! A process runs one reaper for each kind of unit; it serves all queues, sources or stages of that kind that have the same
//! lease. It is a loop, never a step at start-up, and several reapers do no harm: each result is guarded by the lease that
//! it was read with. A lost worker is a failure like any other and goes through the same decision, so a unit that kills
//! every worker is given up within its budget.
//!
//! A worker is lost if it does not renew its leases although the store takes writes. So before an attempt is counted as
//! lost:
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
//! Recoveries run as tasks: a validator that takes long, fails or panics delays no other source.

use std::{collections::HashMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_retry::{Stop, monotonic};
use redrive_store::{ExpiredLease, LeaseRef, Result, Written};
use tokio::{
    sync::Mutex,
    task::{Id, JoinError, JoinSet},
    time::Instant,
};

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
        let all = [runs, partitions, samples, sources].map(|kind| kind.0);
        KindReapers(all.into_iter().flatten().collect()).run(stop).await;
    }
}

/// The reapers of one kind of unit, one for each length of lease: usually one.
#[derive(Default)]
pub(crate) struct KindReapers(Vec<Reaper>);

impl KindReapers {
    /// Adds a queue, source or stage, with the leases that its own loop holds: those are not lost.
    pub(crate) fn add<W: Work>(&mut self, work: Arc<W>, held: Arc<HeldLeases>) {
        let lease = work.limits().lease;
        let doubt = work.leases().lease_clock_can_be_set().then(monotonic);
        let work: Arc<dyn Reaped> = Arc::new(ReapedWork { work, held });
        let member = Member { work: work.clone(), doubt, busy: false };
        match self.0.iter_mut().find(|reaper| reaper.lease == lease) {
            Some(reaper) => reaper.members.push(member),
            None => self.0.push(Reaper::new(lease, work, member)),
        }
    }

    /// Looks for ended leases until stopped. Every write is guarded, so reapers may stop anywhere.
    pub(crate) async fn run(self, mut stop: Stop) {
        let mut reapers = JoinSet::new();
        for reaper in self.0 {
            reapers.spawn(reaper.reap());
        }
        loop {
            tokio::select! {
                biased;
                () = stop.stopped() => return,
                Some(ended) = reapers.join_next() => if let Err(error) = ended {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(error, "a reaper panicked; restart the process");
                },
                else => return,
            }
        }
    }
}

/// The reaper of one kind of unit and one length of lease.
struct Reaper {
    lease: Duration,
    /// Reads the leases of the kind: all members have the same store.
    reads: Arc<dyn Reaped>,
    members: Vec<Member>,
    /// Whether the store did not answer the last check.
    unavailable: bool,
    /// The clocks at the last check.
    clock: Option<ClockReading>,
    /// When there was last a reason to doubt that a silent worker is lost.
    doubt: Option<Instant>,
    probe: Arc<WriteProbe>,
    recoveries: JoinSet<Result<Recovery>>,
    /// The member that each recovery is for.
    recovering: HashMap<Id, usize>,
}

/// One queue, source or stage that a reaper serves.
struct Member {
    work: Arc<dyn Reaped>,
    /// As for the reaper, for a reason that concerns this member alone.
    doubt: Option<Instant>,
    /// Whether a recovery of this member is running.
    busy: bool,
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

    /// Whether the store takes writes without waiting: as it did recently, or as a write to a lease, which changes
    /// nothing, shows now.
    async fn is_prompt(
        &self,
        leases: &dyn UnitLeases,
        lease: LeaseRef,
        now: Timestamp,
        length: Duration,
    ) -> Result<bool> {
        let mut last = self.0.lock().await;
        if let Some(wait) = last.and_then(|write| write.wait(length)) {
            return Ok(wait.is_zero());
        }
        let started = monotonic();
        leases.renew(&[lease], now).await?;
        let write = ProbedWrite { at: monotonic(), took: started.elapsed() };
        *last = Some(write);
        Ok(write.was_prompt(length))
    }
}

impl Reaper {
    fn new(lease: Duration, reads: Arc<dyn Reaped>, member: Member) -> Self {
        Self {
            lease,
            reads,
            members: vec![member],
            unavailable: false,
            clock: None,
            doubt: None,
            probe: Arc::default(),
            recoveries: JoinSet::new(),
            recovering: HashMap::new(),
        }
    }

    async fn reap(mut self) {
        loop {
            let rest = match self.check().await {
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
            tokio::time::sleep(rest).await;
            if asleep.elapsed() >= rest.saturating_add(lease_margin(self.lease)) {
                self.doubt = Some(monotonic());
            }
        }
    }

    /// Checks for ended leases once, recovers lost units, and returns how long to rest: until shortly before the next lease
    /// ends, but not much shorter, so that leases that end one after the other are handled together.
    ///
    /// Reads the earliest end first. Usually it is in the future, and nothing else has to be read.
    async fn check(&mut self) -> Result<Duration> {
        while let Some(ended) = self.recoveries.try_join_next_with_id() {
            self.recovery_ended(ended);
        }
        let (lease, margin) = (self.lease, lease_margin(self.lease));
        let now = self.read_clock();
        let asked = monotonic();
        let mut next = self.leases().next_lease_end(THE_BEGINNING).await?;
        if std::mem::take(&mut self.unavailable) || asked.elapsed() >= lease / 2 {
            self.doubt = Some(monotonic());
        }
        if next.is_some_and(|end| end <= now) {
            let write = self.probe.last().await;
            let pending = write.and_then(|write| write.wait(lease)).unwrap_or_default();
            let wait = self.wait_after(self.doubt).max(pending);
            if !wait.is_zero() {
                return Ok(wait);
            }
            let can_write = self.recover(now).await?;
            self.doubt_slow_writes().await;
            if !can_write {
                return Ok(margin);
            }
            next = self.leases().next_lease_end(now).await?;
        }
        let Some(end) = next else { return Ok(lease / 2) };
        let mut early = margin;
        if end <= later(now, margin) {
            self.probe_before(end, now).await?;
            self.doubt_slow_writes().await;
            early = Duration::ZERO;
        }
        let left = time_left(end, self.leases().lease_now()).saturating_sub(early);
        Ok(left.clamp(lease / 60, lease / 2))
    }

    fn leases(&self) -> &dyn UnitLeases {
        self.reads.leases()
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.members.iter().map(|member| member.work.name()).collect();
        names.join(", ")
    }

    /// How long no attempt may be counted as lost, after a doubt.
    fn wait_after(&self, doubt: Option<Instant>) -> Duration {
        let since = doubt.map(|doubt| doubt.elapsed());
        since.map_or(Duration::ZERO, |since| (self.lease / 2).saturating_sub(since))
    }

    /// A write that waited for half a lease waited for a store that was as good as unavailable.
    async fn doubt_slow_writes(&mut self) {
        let slow = self.probe.last().await.filter(|write| write.took >= self.lease / 2);
        self.doubt = self.doubt.max(slow.map(|write| write.at));
    }

    /// The time that a whole check uses.
    fn read_clock(&mut self) -> Timestamp {
        let now = ClockReading::now(self.leases().lease_now());
        let last = self.clock.replace(now);
        if last.is_some_and(|last| now.has_jumped_since(&last, lease_margin(self.lease))) {
            tracing::warn!(
                work = self.names(),
                "the lease clock was set forward; no worker is considered lost yet"
            );
            self.doubt = Some(now.local);
        }
        now.shared
    }

    /// Writes to the lease that is about to end, unless the store took a write recently.
    async fn probe_before(&self, end: Timestamp, now: Timestamp) -> Result<()> {
        let last = self.probe.last().await;
        let recent = last.is_some_and(|last| last.at.elapsed() <= lease_margin(self.lease) * 2);
        let leases = self.leases();
        if !recent && let Some(ending) = leases.expired(end, i64::MIN, 1).await?.first() {
            *self.probe.0.lock().await = None;
            self.probe.is_prompt(leases, ending.lease, now, self.lease).await?;
        }
        Ok(())
    }

    /// Recovers every unit whose lease has ended; `false` if the store takes no writes. Pages advance by id, so that units
    /// which nobody here serves never hide the rest.
    async fn recover(&mut self, now: Timestamp) -> Result<bool> {
        let doubted = |member: &Member| !self.wait_after(member.doubt).is_zero();
        let mut ready: Vec<bool> = self.members.iter().map(|member| !doubted(member)).collect();
        let (mut after, mut can_write) = (i64::MIN, true);
        loop {
            let expired = self.leases().expired(now, after, PAGE).await?;
            let Some(last) = expired.last() else { return Ok(can_write) };
            redrive_store::failpoint!("engine.reap.looked");
            after = last.lease.id;
            let expired: Arc<[ExpiredLease]> = expired.into();
            let mut started = Vec::new();
            for (index, member) in self.members.iter_mut().enumerate() {
                if member.busy || !ready.get(index).is_some_and(|ready| *ready) {
                    continue;
                }
                member.busy = true;
                started.push(index);
                let (work, page, probe) =
                    (member.work.clone(), expired.clone(), self.probe.clone());
                let recovery = async move { work.recover(&page, now, &probe).await };
                self.recovering.insert(self.recoveries.spawn(recovery).id(), index);
            }
            let deadline = monotonic() + self.lease / 2;
            let is_busy = |members: &[Member], index: &usize| {
                members.get(*index).is_some_and(|member| member.busy)
            };
            while started.iter().any(|index| is_busy(&self.members, index)) {
                let ended = self.recoveries.join_next_with_id();
                let Ok(Some(ended)) = tokio::time::timeout_at(deadline, ended).await else { break };
                if let Some((index, recovery)) = self.recovery_ended(ended) {
                    can_write &= recovery != Recovery::NoWrites;
                    if let Some(ready) = ready.get_mut(index) {
                        *ready &= recovery == Recovery::Done;
                    }
                }
            }
        }
    }

    /// Frees the member of a recovery, and doubts it if the recovery failed.
    fn recovery_ended(
        &mut self,
        ended: std::result::Result<(Id, Result<Recovery>), JoinError>,
    ) -> Option<(usize, Recovery)> {
        let (id, ended) = match ended {
            Ok((id, Ok(recovery))) => (id, Ok(recovery)),
            Ok((id, Err(error))) => (id, Err(Box::new(error) as Box<dyn std::error::Error>)),
            Err(error) => (error.id(), Err(error.into())),
        };
        let index = self.recovering.remove(&id)?;
        let member = self.members.get_mut(index)?;
        member.busy = false;
        let recovery = ended.unwrap_or_else(|error| {
            let (work, error) = (member.work.name(), &*error);
            tracing::warn!(work, error, "cannot recover the units of lost workers; trying again");
            member.doubt = Some(monotonic());
            Recovery::Failed
        });
        Some((index, recovery))
    }
}

/// What came of a recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recovery {
    Done,
    /// The store takes no writes without waiting, so no worker may be considered lost yet.
    NoWrites,
    Failed,
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
        if !probe.is_prompt(work.leases(), work.finish_lease(first), now, lease).await? {
            return Ok(Recovery::NoWrites);
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
