//! Units whose worker was lost come back.
//!
//! The reaper is a loop, never a step at start-up, and nothing depends on there being one: several do
//! no harm, because each end is guarded by the lease it was read with. A lost worker is a failure
//! like any other and goes through the same decision; so a unit that kills every worker is given up
//! within its budget.
//!
//! A worker is lost if it is silent while the store can hear it. So before anything is counted against a unit:
//!
//! - **The store answers, and its clock goes on steadily, for half a lease.** When it was away, or somebody set
//!   its clock forward, every lease may have ended without anybody being lost: the holders get time to renew, to
//!   write what they have and to hand back what they stopped. Where people can set that clock, a reaper that has
//!   just begun does not know whether they did, and looks on for as long. So does one that stood still itself: where
//!   it got no turn, others may have got none.
//! - **The store took a write a sixth of a lease ago, or takes one without waiting.** It may answer questions and
//!   take no writes, because its disk is full or another process has it locked; whoever waits with a renewal has it
//!   written by then. So that nobody has to wait for that, a lease that is about to end is written to before it
//!   does: a holder that is well renews much sooner. The write changes nothing, since ends move forward only.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use redrive_store::{ExpiredLease, LeaseRef, Result, Written};
use tokio::time::Instant;

use crate::worker::{
    held_leases::Held,
    lease_clock::Reading,
    renewer::{later, margin},
    settled::settled,
    work::Work,
};
use redrive_retry::{Stop, monotonic};

/// Ended leases that are decided about at a time.
const PAGE: u32 = 500;

/// Before the end of every lease; some ends are put at 1970.
const THE_BEGINNING: Timestamp = Timestamp::constant(-1, 0);

/// Looks for ended leases until told to stop. Every end is guarded, so it may be stopped anywhere.
pub(crate) async fn reap_all<W: Work>(work: Arc<W>, held: Arc<Held>, mut stop: Stop) {
    tokio::select! {
        biased;
        () = stop.stopped() => {}
        () = reap_on(&*work, &held) => {}
    }
}

async fn reap_on<W: Work>(work: &W, held: &Held) {
    let mut reaper = Reaper::new(work, held);
    loop {
        let rest = match reaper.look().await {
            Ok(rest) => rest,
            Err(error) => {
                if !std::mem::replace(&mut reaper.away, true) {
                    tracing::warn!(
                        work = work.name(),
                        error = &error as &dyn std::error::Error,
                        "cannot look for lost workers"
                    );
                }
                work.limits().lease / 6
            }
        };
        let asleep = monotonic();
        tokio::time::sleep(rest).await;
        if asleep.elapsed() >= rest.saturating_add(margin(work)) {
            reaper.doubt = Some(monotonic());
        }
    }
}

/// What a reaper knows from one look to the next.
struct Reaper<'a, W> {
    work: &'a W,
    held: &'a Held,
    /// Whether the store did not answer the look before.
    away: bool,
    /// The clock at the look before.
    clock: Reading,
    /// When there was last a reason to doubt that whoever is silent is lost.
    doubt: Option<Instant>,
    /// When the store last took a write, and how long after it whoever waited with one has had it written.
    heard: Option<(Instant, Duration)>,
}

impl<'a, W: Work> Reaper<'a, W> {
    fn new(work: &'a W, held: &'a Held) -> Self {
        let clock = Reading::now(work.lease_now());
        let doubt = work.lease_clock_can_be_set().then_some(clock.here);
        Self { work, held, away: false, clock, doubt, heard: None }
    }

    /// One look at all ended leases: brings back what was lost, and says how long to rest. That is until the next
    /// lease is about to end, if nobody renews it. Not much shorter, so that leases that end one after the other are
    /// looked at together.
    ///
    /// Asks for the earliest end first. Mostly it is still to come, and that is all there is to know: a
    /// store may have to read every unit it has for each question about leases.
    async fn look(&mut self) -> Result<Duration> {
        let (work, lease) = (self.work, self.work.limits().lease);
        let now = self.read_clock();
        let asked = monotonic();
        let mut next = work.next_lease_end(THE_BEGINNING).await?;
        if std::mem::take(&mut self.away) || asked.elapsed() >= lease / 2 {
            self.doubt = Some(monotonic());
        }
        if next.is_some_and(|end| end <= now) {
            let hearing = self.hearing();
            let patience = self.patience().max(hearing.unwrap_or_default());
            if !patience.is_zero() {
                return Ok(patience);
            }
            let heard = hearing.is_some();
            let Some(back) = self.reap(now, heard).await? else { return Ok(margin(work)) };
            if back > 0 {
                self.held.stir();
            }
            next = work.next_lease_end(now).await?;
        }
        let Some(end) = next else { return Ok(lease / 2) };
        if end <= later(now, margin(work)) {
            self.speak_before(end, now).await?;
            return Ok(left(end, work.lease_now()).clamp(lease / 60, lease / 2));
        }
        Ok(left(end, work.lease_now()).saturating_sub(margin(work)).clamp(lease / 60, lease / 2))
    }

    /// What all of a look goes by.
    fn read_clock(&mut self) -> Timestamp {
        let now = Reading::now(self.work.lease_now());
        if now.has_jumped_since(&self.clock, margin(self.work)) {
            let work = self.work.name();
            tracing::warn!(
                work,
                "the clock of leases was set forward; nobody is taken for lost yet"
            );
            self.doubt = Some(now.here);
        }
        self.clock = now;
        now.shared
    }

    /// How long nobody may be taken for lost yet.
    fn patience(&self) -> Duration {
        let since = self.doubt.map(|doubt| doubt.elapsed());
        since.map_or(Duration::ZERO, |since| (self.work.limits().lease / 2).saturating_sub(since))
    }

    /// How long it is until everybody was heard by a store that took a write; nothing, if that is so long ago that a
    /// lease can have ended for want of another.
    fn hearing(&self) -> Option<Duration> {
        let (heard, wait) = self.heard?;
        let age = heard.elapsed();
        (age <= self.work.limits().lease / 2).then(|| wait.saturating_sub(age))
    }

    /// Writes to a lease that is about to end, unless that was done already.
    async fn speak_before(&mut self, end: Timestamp, now: Timestamp) -> Result<()> {
        let lately = self.heard.is_some_and(|(heard, _)| heard.elapsed() <= margin(self.work) * 2);
        if !lately && let Some(ending) = self.work.expired(end, i64::MIN, 1).await?.first() {
            self.speak(ending.lease, now).await?;
        }
        Ok(())
    }

    /// Writes to a lease, and says whether that was done without waiting. One that had to wait may be the first after
    /// a long time; for half a lease it waited for a store that was as good as away.
    async fn speak(&mut self, lease: LeaseRef, now: Timestamp) -> Result<bool> {
        let (asked, margin) = (monotonic(), margin(self.work));
        self.work.renew(&[lease], now).await?;
        if asked.elapsed() >= self.work.limits().lease / 2 {
            self.doubt = Some(monotonic());
        }
        let at_once = asked.elapsed() < margin;
        self.heard = Some((monotonic(), if at_once { Duration::ZERO } else { margin }));
        Ok(at_once)
    }

    /// Decides about every unit whose lease has ended, and says how many came back; nothing, if nobody may be taken for
    /// lost yet. Pages go on by id, so that units nobody here can decide about never hide the rest. What the worker
    /// itself has in hand is not lost.
    async fn reap(&mut self, now: Timestamp, mut heard: bool) -> Result<Option<usize>> {
        let (mut after, mut reaped) = (i64::MIN, 0);
        loop {
            let mut expired = self.work.expired(now, after, PAGE).await?;
            let Some(last) = expired.last() else { return Ok(Some(reaped)) };
            redrive_store::failpoint!("engine.reap.looked");
            after = last.lease.id;
            expired.retain(|expired: &ExpiredLease| !self.held.holds(expired.lease));
            let Some(back) = self.bring_back(&expired, now, &mut heard).await? else {
                return Ok(None);
            };
            reaped += back;
        }
    }

    /// Decides about units and writes it, and says how many came back. What the store refuses is tried
    /// one by one, so that one bad row strands no other.
    async fn bring_back(
        &mut self,
        expired: &[ExpiredLease],
        now: Timestamp,
        heard: &mut bool,
    ) -> Result<Option<usize>> {
        match (self.bring_back_together(expired, now, heard).await, expired) {
            (Err(refusal), [one]) if !refusal.is_transient() => {
                tracing::error!(
                    work = self.work.name(),
                    id = one.lease.id,
                    error = &refusal as &dyn std::error::Error,
                    "a unit whose worker was lost cannot be brought back"
                );
                Ok(Some(0))
            }
            (Err(refusal), several) if !refusal.is_transient() => {
                let mut all = 0;
                for one in several.chunks(1) {
                    let back = Box::pin(self.bring_back(one, now, heard)).await?;
                    let Some(back) = back else { return Ok(None) };
                    all += back;
                }
                Ok(Some(all))
            }
            (answer, _) => answer,
        }
    }

    async fn bring_back_together(
        &mut self,
        expired: &[ExpiredLease],
        now: Timestamp,
        heard: &mut bool,
    ) -> Result<Option<usize>> {
        let ends = self.work.lost(expired).await?;
        redrive_store::failpoint!("engine.reap.decided");
        if let (Some(first), false) = (ends.first(), *heard) {
            *heard = self.speak(self.work.end_lease(first), now).await?;
            if !*heard {
                return Ok(None);
            }
        }
        let written = self.work.finish(&ends).await?;
        redrive_store::failpoint!("engine.reap.written");
        let mut back = 0;
        for (end, written) in ends.iter().zip(written) {
            settled(self.work, end, written);
            back += usize::from(written == Written::Applied);
        }
        Ok(Some(back))
    }
}

/// How long it is until a time.
fn left(end: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(end.duration_since(now)).unwrap_or_default()
}
