//! The worker loop: claim in batches, handle with bounded concurrency, decide, finish in batches.
//!
//! ```text
//!        wake, poll               slots                      batches
//! store ──► claim ──► claimed ──► running ──► decide ──► finisher ──► store
//!             ▲        the renewer keeps held leases valid, the reaper ends lost attempts
//!             ├── no more than can be started soon ──┘
//!   handoff from another loop
//! ```
//!
//! Units that wait for a retry are in the store and hold nothing here. Notifications wake the loop early; it also polls.

use std::{collections::HashMap, collections::VecDeque, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use redrive_retry::{Stop, Stopper};
use redrive_store::{Backlog, LeaseRef, Result};
use tokio::{
    sync::{mpsc, watch},
    task::{Id, JoinError, JoinSet},
    time::Instant,
};

use crate::gates::work_gates::Start;
use crate::worker::{
    backpressure::Backpressure,
    claim::{ClaimAnswer, PendingClaim, claim_answer, is_late},
    failures::{stopped_without_signal, task_failure},
    finisher::{Finisher, HeldUpdate},
    handoff::{Handoff, arrived},
    held_leases::{HeldLeases, LeaseHealth},
    lease_clock::later,
    prefetch::{InFlight, Prefetch},
    reaper::KindReapers,
    release::{GATE_CLOSED, LATE, SHUTDOWN, START_MISSED},
    renewer::renew_all,
    reporter::WorkerReporter,
    work::{Completion, Work},
    write_times::WriteTimes,
};

/// After a claim that brought fewer units than requested, the next poll comes this many times earlier.
const EARLY_POLL: u32 = 10;

/// A start time has been missed this long after its end: timers are not finer.
const MISSED_AFTER: Duration = Duration::from_millis(1);

/// When a worker ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Never: it runs until stopped.
    Stopped,
    /// When nothing is due, now or later.
    Drained,
}

/// Runs the loop of one kind of work with a reaper of its own, until stopped or drained.
pub async fn run_worker<W: Work>(
    work: Arc<W>,
    wakes: watch::Receiver<u64>,
    stop: Stop,
    until: Until,
) {
    let worker = WorkerLoop::new(work, Arc::default());
    let mut reapers = KindReapers::default();
    worker.register(&mut reapers);
    let (stopper, reaper_stop) = Stopper::new();
    let reapers = tokio::spawn(reapers.run(reaper_stop));
    worker.run(wakes, stop, until).await;
    stopper.stop();
    _ = reapers.await;
}

/// The loop of one kind of work, before it runs.
pub(crate) struct WorkerLoop<W> {
    work: Arc<W>,
    held: Arc<HeldLeases>,
    write_times: Arc<WriteTimes>,
}

impl<W: Work> WorkerLoop<W> {
    pub(crate) fn new(work: Arc<W>, write_times: Arc<WriteTimes>) -> Self {
        Self { work, held: Arc::default(), write_times }
    }

    /// Lets a reaper recover the units of this work.
    pub(crate) fn register(&self, reapers: &mut KindReapers) {
        reapers.add(self.work.clone(), self.held.clone());
    }

    /// Lets the process report what this loop holds and has finished.
    pub(crate) fn report_to(&self, reporter: &mut WorkerReporter) {
        reporter.add(self.work.clone(), self.held.clone());
    }

    /// Runs until stopped or drained, together with its renewer and its finisher.
    pub(crate) async fn run(self, wakes: watch::Receiver<u64>, stop: Stop, until: Until) {
        let Self { work, held, write_times } = self;
        let (renewer_stopper, renewer_stop) = Stopper::new();
        let renewer = tokio::spawn(renew_all(work.clone(), held.clone(), renewer_stop));
        let (follower_stopper, follower_stop) = Stopper::new();
        let follower =
            work.logs().map(|logs| tokio::spawn(logs.clone().follow(held.clone(), follower_stop)));
        let (updates, finisher_updates) = mpsc::unbounded_channel();
        let finisher = Finisher { work: work.clone(), held: held.clone(), write_times };
        let mut finisher = tokio::spawn(finisher.run(finisher_updates));

        let mut running = RunningLoop::new(work.clone(), held.clone(), updates, wakes);
        running.work(stop, until).await;
        running.wind_down().await;
        drop(running);
        // The channel is closed now: the finisher writes what is left, and leases are renewed until then. A store that
        // does not answer for the length of a lease is not waited for.
        if tokio::time::timeout(work.limits().lease, &mut finisher).await.is_err() {
            finisher.abort();
            tracing::error!(
                work = work.name(),
                units = held.len(),
                "the store does not answer; the units are retried when their leases end"
            );
        }
        renewer_stopper.stop();
        follower_stopper.stop();
        _ = renewer.await;
        if let Some(follower) = follower {
            _ = follower.await;
        }
    }
}

/// A running attempt.
struct RunningAttempt<W: Work> {
    unit: Arc<W::Unit>,
    started_at: Timestamp,
    stop: Stop,
}

struct RunningLoop<W: Work> {
    work: Arc<W>,
    held: Arc<HeldLeases>,
    updates: mpsc::UnboundedSender<HeldUpdate<W::Finish>>,
    wakes: watch::Receiver<u64>,
    pending_claim: Option<PendingClaim<W>>,
    /// Claimed units, each with the time of its claim.
    claimed: VecDeque<(Instant, W::Unit)>,
    /// When a claimed unit reaches its start time, or has missed it, on the lease clock.
    next_start: Option<Timestamp>,
    /// Whether there may be claimed units that a gate keeps back.
    unchecked: bool,
    gate_changes: Option<watch::Receiver<()>>,
    running: JoinSet<W::Outcome>,
    attempts: HashMap<Id, RunningAttempt<W>>,
    prefetch: Prefetch,
    /// When to claim again, unless woken before.
    next_poll: Option<Timestamp>,
    /// Whether the last backlog was empty: nothing to do, now or later, here or elsewhere.
    nothing_left: bool,
    /// Whether the loop was woken after the pending claim was sent, which may have missed the reason.
    woken: bool,
    backpressure: Backpressure,
}

impl<W: Work> RunningLoop<W> {
    fn new(
        work: Arc<W>,
        held: Arc<HeldLeases>,
        updates: mpsc::UnboundedSender<HeldUpdate<W::Finish>>,
        wakes: watch::Receiver<u64>,
    ) -> Self {
        let prefetch = Prefetch::new(work.limits().concurrency);
        let gate_changes = work.gate_changes();
        Self {
            work,
            held,
            updates,
            wakes,
            pending_claim: None,
            claimed: VecDeque::new(),
            next_start: None,
            unchecked: false,
            gate_changes,
            running: JoinSet::new(),
            attempts: HashMap::new(),
            prefetch,
            next_poll: None,
            nothing_left: false,
            woken: false,
            backpressure: Backpressure::default(),
        }
    }

    /// Never waits for the store: a store that hangs must not delay results or the stop signal.
    async fn work(&mut self, mut stop: Stop, until: Until) {
        let mut listening = true;
        loop {
            self.start_attempts();
            self.start_claim(until);
            self.announce_handoff_capacity();
            if until == Until::Drained && self.is_drained() {
                return;
            }
            let rest = self.time_to_poll();
            let start = self.time_to_start();
            tokio::select! {
                biased;
                () = stop.stopped() => return,
                Some(ended) = self.running.join_next_with_id() => self.attempt_ended(ended),
                answer = claim_answer(&mut self.pending_claim) => self.claim_answered(answer),
                () = arrived(self.work.handoff()) => self.receive_handoffs(),
                () = self.held.changed() => {
                    // The last result may be written.
                    if until == Until::Drained && self.held.len() == 0 {
                        self.poll_now();
                    }
                }
                woken = self.wakes.changed(), if listening => {
                    listening = woken.is_ok();
                    self.poll_now();
                }
                () = tokio::time::sleep(rest), if self.next_poll.is_some() => self.next_poll = None,
                () = changed(&mut self.gate_changes) => self.unchecked = true,
                () = tokio::time::sleep(start), if self.next_start.is_some() => {}
                () = self.backpressure.over() => {}
            }
        }
    }

    /// Fills free slots with claimed units whose lease is reliable.
    fn start_attempts(&mut self) {
        while let Some(unit) = self.next_claimed() {
            let lease = self.work.lease(&unit);
            if self.held.health(lease) != LeaseHealth::Held {
                self.release(lease, LATE);
                continue;
            }
            redrive_store::failpoint!("engine.unit.starting");
            let unit = Arc::new(unit);
            let stop = self.held.start(lease);
            let started_at = self.work.leases().now();
            let attempt = RunningAttempt { unit: unit.clone(), started_at, stop: stop.clone() };
            let work = self.work.clone();
            let task = self.running.spawn(async move { work.handle(&unit, stop).await });
            self.attempts.insert(task.id(), attempt);
        }
    }

    /// Takes the first claimed unit that may be started now, if a slot is free. Units that a gate keeps back, or that have missed
    /// their start time, are released, also while all slots are busy: other workers may start them.
    fn next_claimed(&mut self) -> Option<W::Unit> {
        let has_slot = self.running.len() < self.work.limits().concurrency;
        let is_due = |at: Timestamp| at <= self.work.leases().lease_now();
        self.unchecked |= self.next_start.is_some_and(is_due);
        if !has_slot && !self.unchecked {
            return None;
        }
        let (mut place, mut next_start) = (0, None::<Timestamp>);
        while let Some((claimed_at, unit)) = self.claimed.get(place) {
            let why = match self.work.start(unit, *claimed_at) {
                Start::KeptBack => Some(GATE_CLOSED),
                Start::Now if has_slot => None,
                Start::Now => {
                    place += 1;
                    continue;
                }
                Start::At(window) => {
                    let now = self.work.leases().lease_now();
                    if now > window.until {
                        Some(START_MISSED)
                    } else if now >= window.from && has_slot {
                        None
                    } else {
                        let missed = later(window.until, MISSED_AFTER);
                        let at = if now < window.from { window.from } else { missed };
                        next_start = Some(next_start.map_or(at, |next| next.min(at)));
                        place += 1;
                        continue;
                    }
                }
            };
            let (_, unit) = self.claimed.remove(place)?;
            match why {
                None => {
                    self.next_start = self.next_start.into_iter().chain(next_start).min();
                    return Some(unit);
                }
                Some(why) => self.release(self.work.lease(&unit), why),
            }
        }
        (self.next_start, self.unchecked) = (next_start, false);
        None
    }

    fn time_to_start(&self) -> Duration {
        let Some(at) = self.next_start else { return Duration::ZERO };
        let wait = at.duration_since(self.work.leases().lease_now());
        wait.try_into().unwrap_or_default()
    }

    /// Claims more units, unless enough are held or nothing was claimable a moment ago.
    fn start_claim(&mut self, until: Until) {
        if self.pending_claim.is_some() || self.next_poll.is_some() || self.backpressure.is_active()
        {
            return;
        }
        self.accept_no_handoffs();
        let in_flight = self.in_flight(self.incoming_handoffs());
        let room = self.prefetch.claim_size(in_flight, self.work.claims_ahead());
        // Leaves half of the room to handoffs.
        let units = if self.work.handoff().is_some() { room.div_ceil(2) } else { room };
        let Ok(limit @ 1..) = u32::try_from(units) else { return };
        let (work, held) = (self.work.clone(), self.held.clone());
        self.pending_claim = Some(PendingClaim::start(work, held, units, limit, until));
    }

    /// Lets other loops hand off what this loop can start soon. Units in the store go first: a claim that found no
    /// capacity gets the next slots.
    fn announce_handoff_capacity(&self) {
        let Some(handoff) = self.work.handoff() else { return };
        let requested = self.pending_claim.as_ref().map(|claim| claim.requested_units);
        let capacity = match requested {
            None if self.next_poll.is_none() => 0,
            requested => {
                self.prefetch.handoff_capacity(self.in_flight(requested.unwrap_or_default()))
            }
        };
        handoff.set_capacity(capacity);
    }

    fn accept_no_handoffs(&self) {
        self.work.handoff().inspect(|handoff| handoff.set_capacity(0));
    }

    /// The units of this loop, with those that are on their way.
    fn in_flight(&self, incoming: usize) -> InFlight {
        let unfinished = self.running.len() + self.claimed.len() + incoming;
        InFlight { unfinished, held: self.held.len() + incoming }
    }

    fn incoming_handoffs(&self) -> usize {
        self.work.handoff().map_or(0, Handoff::incoming)
    }

    fn receive_handoffs(&mut self) {
        let Some(handoff) = self.work.handoff() else { return };
        let units = handoff.take(|unit, requested_at| {
            let lease = self.work.lease(unit);
            self.held.add([lease], requested_at);
            lease
        });
        for (unit, requested_at) in units {
            redrive_store::failpoint!("engine.unit.handed_over");
            let lease = self.work.lease(&unit);
            if is_late(&*self.work, requested_at) {
                self.release(lease, LATE);
            } else {
                self.claimed.push_back((requested_at, unit));
                self.unchecked = true;
            }
        }
    }

    fn claim_answered(&mut self, answer: Result<ClaimAnswer<W>>) {
        self.nothing_left = false;
        let woken = std::mem::take(&mut self.woken);
        match answer {
            Ok(answer) => {
                let complete = answer.units.len() == answer.requested_units;
                let (late, backlog) = (answer.late, answer.backlog);
                self.hold(answer);
                if late {
                    tracing::warn!(work = self.work.name(), "the store answered a claim too late");
                    self.release_claimed(LATE);
                }
                if !complete && !woken {
                    self.poll_later(backlog);
                }
            }
            Err(error) => {
                let (work, cause) = (self.work.name(), &error as &dyn std::error::Error);
                match error.is_transient() {
                    true => tracing::warn!(work, error = cause, "cannot claim"),
                    false => tracing::error!(work, error = cause, "cannot claim"),
                }
                self.held.claim_failed();
                self.next_poll = Some(later(self.now(), self.work.limits().poll));
            }
        }
    }

    fn now(&self) -> Timestamp {
        self.work.leases().now()
    }

    fn hold(&mut self, answer: ClaimAnswer<W>) {
        let leases = answer.units.iter().map(|unit| self.work.lease(unit));
        self.held.add(leases, answer.requested_at);
        self.held.claim_answered();
        self.claimed.extend(answer.units.into_iter().map(|unit| (answer.requested_at, unit)));
        self.unchecked = true;
    }

    /// Claims at once; after the pending claim, if there is one.
    fn poll_now(&mut self) {
        self.next_poll = None;
        self.woken = self.pending_claim.is_some();
    }

    /// Claims again after the poll interval, or when the next waiting unit is due. Earlier after a claim that brought
    /// some units: more may have arrived just after it.
    fn poll_later(&mut self, backlog: Option<Backlog>) {
        let (now, poll) = (self.now(), self.work.limits().poll);
        let poll = later(now, if backlog.is_some() { poll } else { poll / EARLY_POLL });
        let due = backlog.and_then(|backlog| backlog.next_due);
        self.next_poll = Some(due.map_or(poll, |due| due.clamp(now, poll)));
        self.nothing_left = backlog
            .is_some_and(|backlog| !backlog.ready && !backlog.held && backlog.next_due.is_none());
    }

    /// At most the poll interval, so that a clock that was set back delays no claim for longer.
    fn time_to_poll(&self) -> Duration {
        let poll = self.work.limits().poll;
        let Some(at) = self.next_poll else { return poll };
        let wait = at.duration_since(self.now()).max(SignedDuration::ZERO);
        wait.try_into().unwrap_or(poll).min(poll)
    }

    fn attempt_ended(&mut self, ended: std::result::Result<(Id, W::Outcome), JoinError>) {
        let (id, outcome) = match ended {
            Ok(ended) => ended,
            Err(error) => (error.id(), task_failure(error).into()),
        };
        let Some(RunningAttempt { unit, started_at, stop }) = self.attempts.remove(&id) else {
            return;
        };
        redrive_store::failpoint!("engine.unit.ended");
        let now = self.now();
        self.prefetch.ended(now);
        let lease = self.work.lease(&unit);
        let completion = match self.work.complete(&unit, outcome, started_at, now) {
            // Released without a signal, the unit would return at once, uncounted, forever.
            Completion::Release if !stop.is_stopped() => {
                self.work.complete(&unit, stopped_without_signal().into(), started_at, now)
            }
            completion => completion,
        };
        match completion {
            Completion::Finish(finish) => {
                self.backpressure.reset();
                self.held.ended(lease);
                self.send(HeldUpdate::Finish(finish));
            }
            Completion::Release if self.held.health(lease) == LeaseHealth::Held => {
                self.release(lease, SHUTDOWN);
            }
            Completion::Release => self.release(lease, LATE),
            Completion::Backpressure(why) => {
                self.release(lease, why);
                // The claimed units could not run either.
                self.release_claimed(why);
                self.backpressure.start();
            }
        }
    }

    /// Releases a unit without an attempt, unless another worker has it already.
    fn release(&self, lease: LeaseRef, why: &'static str) {
        if self.held.health(lease) == LeaseHealth::Lost {
            self.held.remove([lease]);
        } else {
            self.held.ended(lease);
            self.send(HeldUpdate::Release(lease, why));
        }
    }

    fn release_claimed(&mut self, why: &'static str) {
        for (_, unit) in std::mem::take(&mut self.claimed) {
            self.release(self.work.lease(&unit), why);
        }
    }

    /// The finisher receives as long as this loop lives.
    fn send(&self, update: HeldUpdate<W::Finish>) {
        _ = self.updates.send(update);
    }

    fn is_drained(&self) -> bool {
        self.nothing_left
            && self.held.len() == 0
            && self.incoming_handoffs() == 0
            && self.pending_claim.is_none()
    }

    /// Claims nothing more, releases what has not started, lets running attempts end within the grace time, then stops
    /// and releases the rest.
    async fn wind_down(&mut self) {
        redrive_store::failpoint!("engine.stop.begun");
        self.accept_no_handoffs();
        self.release_claimed(SHUTDOWN);
        let grace = self.work.limits().grace;
        _ = tokio::time::timeout(grace, self.end_attempts()).await;
        self.held.stop_all();
        _ = tokio::time::timeout(grace, self.end_attempts()).await;
        // Attempts that did not stop within twice the grace time are dropped, which ends them.
        self.running.shutdown().await;
        for (_, attempt) in std::mem::take(&mut self.attempts) {
            self.release(self.work.lease(&attempt.unit), SHUTDOWN);
        }
        if self.pending_claim.take().is_some() {
            self.held.claim_failed();
        }
        // As long as the finisher of the other loop may take to send them.
        _ = tokio::time::timeout(self.work.limits().lease, self.end_handoffs()).await;
    }

    /// Releases incoming handoffs until none is left.
    async fn end_handoffs(&mut self) {
        loop {
            self.receive_handoffs();
            self.release_claimed(SHUTDOWN);
            if self.incoming_handoffs() == 0 {
                return;
            }
            arrived(self.work.handoff()).await;
        }
    }

    /// Waits until no attempt is running. Units that arrive meanwhile are released.
    async fn end_attempts(&mut self) {
        while !self.running.is_empty() || self.pending_claim.is_some() {
            tokio::select! {
                biased;
                Some(ended) = self.running.join_next_with_id() => self.attempt_ended(ended),
                answer = claim_answer(&mut self.pending_claim) => {
                    match answer {
                        Ok(answer) => self.hold(answer),
                        Err(_) => self.held.claim_failed(),
                    }
                    self.release_claimed(SHUTDOWN);
                }
                () = arrived(self.work.handoff()) => {
                    self.receive_handoffs();
                    self.release_claimed(SHUTDOWN);
                }
            }
        }
    }
}

/// Waits until the gates of the work change; forever without any.
async fn changed(gates: &mut Option<watch::Receiver<()>>) {
    let Some(changes) = gates else { return std::future::pending().await };
    if changes.changed().await.is_err() {
        std::future::pending().await
    }
}
