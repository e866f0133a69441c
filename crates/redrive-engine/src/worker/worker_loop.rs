//! The one worker loop: claim in batches, handle with bounded concurrency, decide, finish in batches.
//!
//! ```text
//!          wake, poll                slots                      batches
//! store ──► claim ──► claimed ──► running ──► decide ──► finisher ──► store
//!              ▲       the renewer keeps what is held, the reaper returns what others lost
//!              ├── no more than can be started soon ──┘
//!   another loop that keeps a unit for this one
//! ```
//!
//! Units that wait for a retry are in the store and hold nothing here. Notifications make the loop
//! look sooner; it looks on its own as well, always.

use std::{collections::HashMap, collections::VecDeque, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use redrive_store::{Backlog, LeaseRef, Result};
use tokio::{
    sync::{mpsc, watch},
    task::{Id, JoinError, JoinSet},
};

use crate::worker::{
    backpressure::Pause,
    claim::{Claim, Claiming, claim_of, is_late},
    failures::{panicked, stopped_unasked},
    finisher::{Fate, finish_all},
    handoff::{Handoff, arrived},
    held_leases::{Held, LeaseHealth},
    prefetch::{Hand, Prefetch},
    reaper::reap_all,
    renewer::{later, renew_all},
    work::{Ending, Work},
};
use redrive_retry::{Stop, Stopper};

/// Why a unit is handed back: the worker stops.
const SHUTDOWN: &str = "shutdown";

/// Why a unit is handed back: its lease was about to end, because the store answered late or not.
const LATE: &str = "late";

/// How much sooner a worker looks again where it found something.
const SOONER: u32 = 10;

/// When a worker ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Never: only when told to.
    Stopped,
    /// When nothing is due, now or later.
    Drained,
}

/// Does a kind of work until told to stop, or until there is nothing left.
pub async fn run_worker<W: Work>(
    work: Arc<W>,
    wakes: watch::Receiver<u64>,
    stop: Stop,
    until: Until,
) {
    let held = Arc::new(Held::default());
    let (helpers, helpers_stop) = Stopper::new();
    let renewer = tokio::spawn(renew_all(work.clone(), held.clone(), helpers_stop.clone()));
    let reaper = tokio::spawn(reap_all(work.clone(), held.clone(), helpers_stop));
    let (fates, finisher_fates) = mpsc::unbounded_channel();
    let mut finisher = tokio::spawn(finish_all(work.clone(), held.clone(), finisher_fates));

    let mut worker = Loop::new(work.clone(), held.clone(), fates, wakes);
    worker.work(stop, until).await;
    worker.wind_down().await;
    drop(worker);
    // No more fates can come now: the finisher writes what is left. Leases are kept until then. A
    // store that does not answer for as long as a lease lasts is not waited for.
    if tokio::time::timeout(work.limits().lease, &mut finisher).await.is_err() {
        finisher.abort();
        tracing::error!(
            work = work.name(),
            units = held.len(),
            "the store does not answer; the units come back when their leases end"
        );
    }
    helpers.stop();
    _ = tokio::join!(renewer, reaper);
}

/// An attempt under way.
struct Started<W: Work> {
    unit: Arc<W::Unit>,
    at: Timestamp,
    stop: Stop,
}

struct Loop<W: Work> {
    work: Arc<W>,
    held: Arc<Held>,
    fates: mpsc::UnboundedSender<Fate<W::End>>,
    wakes: watch::Receiver<u64>,
    claiming: Option<Claiming<W>>,
    claimed: VecDeque<W::Unit>,
    running: JoinSet<W::Outcome>,
    started: HashMap<Id, Started<W>>,
    appetite: Prefetch,
    /// When to look for work again, if nothing says so before.
    look_at: Option<Timestamp>,
    /// Whether the last look found nothing to do, now or later, here or elsewhere.
    nothing_left: bool,
    /// Whether something happened that the claim under way may have been too early to see.
    woken: bool,
    /// While nothing is taken, because units could not be tried.
    pause: Pause,
}

impl<W: Work> Loop<W> {
    fn new(
        work: Arc<W>,
        held: Arc<Held>,
        fates: mpsc::UnboundedSender<Fate<W::End>>,
        wakes: watch::Receiver<u64>,
    ) -> Self {
        let appetite = Prefetch::new(work.limits().concurrency);
        Self {
            work,
            held,
            fates,
            wakes,
            claiming: None,
            claimed: VecDeque::new(),
            running: JoinSet::new(),
            started: HashMap::new(),
            appetite,
            look_at: None,
            nothing_left: false,
            woken: false,
            pause: Pause::default(),
        }
    }

    /// Never waits for the store: a store that hangs must not keep results, or the word to stop, from
    /// being heard.
    async fn work(&mut self, mut stop: Stop, until: Until) {
        let mut listening = true;
        loop {
            self.start_claimed();
            self.start_claim(until);
            self.offer();
            if until == Until::Drained && self.is_drained() {
                return;
            }
            let rest = self.rest();
            tokio::select! {
                biased;
                () = stop.stopped() => return,
                Some(ended) = self.running.join_next_with_id() => self.ended(ended),
                claim = claim_of(&mut self.claiming) => self.took(claim),
                () = arrived(self.work.handoff()) => self.receive(),
                () = self.held.freed() => {
                    // The last of all work may be done.
                    if until == Until::Drained && self.held.len() == 0 {
                        self.look_again();
                    }
                }
                woken = self.wakes.changed(), if listening => {
                    listening = woken.is_ok();
                    self.look_again();
                }
                () = tokio::time::sleep(rest), if self.look_at.is_some() => self.look_at = None,
                () = self.pause.over() => {}
            }
        }
    }

    /// Fills free slots with what was claimed, and is still held for sure.
    fn start_claimed(&mut self) {
        let concurrency = self.work.limits().concurrency;
        while self.running.len() < concurrency
            && let Some(unit) = self.claimed.pop_front()
        {
            let lease = self.work.lease(&unit);
            if self.held.grip(lease) != LeaseHealth::Firm {
                self.let_go(lease, LATE);
                continue;
            }
            redrive_store::failpoint!("engine.unit.starting");
            let unit = Arc::new(unit);
            let stop = self.held.start(lease);
            let started = Started { unit: unit.clone(), at: self.work.now(), stop: stop.clone() };
            let work = self.work.clone();
            let task = self.running.spawn(async move { work.handle(&unit, stop).await });
            self.started.insert(task.id(), started);
        }
    }

    /// Asks for more, unless enough is in hand or nothing was there a moment ago.
    fn start_claim(&mut self, until: Until) {
        if self.claiming.is_some() || self.look_at.is_some() || self.pause.is_on() {
            return;
        }
        self.offer_nothing();
        let room = self.appetite.want(self.hand(self.coming()));
        // Half of it is for what is handed over meanwhile.
        let asked = if self.work.handoff().is_some() { room.div_ceil(2) } else { room };
        let Ok(limit @ 1..) = u32::try_from(asked) else { return };
        self.claiming = Some(Claiming::new(self.work.clone(), asked, limit, until));
    }

    /// Lets other loops hand over what could be begun soon. What waits in the store goes first: a claim
    /// that there is no room for gets the next that becomes free.
    fn offer(&self) {
        let Some(handoff) = self.work.handoff() else { return };
        let asked = self.claiming.as_ref().map(|claiming| claiming.asked);
        let room = match asked {
            None if self.look_at.is_none() => 0,
            asked => self.appetite.welcome(self.hand(asked.unwrap_or_default())),
        };
        handoff.offer(room);
    }

    fn offer_nothing(&self) {
        self.work.handoff().inspect(|handoff| handoff.offer(0));
    }

    /// What there is, with so many more that are on their way.
    fn hand(&self, coming: usize) -> Hand {
        let to_do = self.running.len() + self.claimed.len() + coming;
        Hand { to_do, held: self.held.len() + coming }
    }

    /// Units that other loops hand over.
    fn coming(&self) -> usize {
        self.work.handoff().map_or(0, Handoff::coming)
    }

    /// Takes what other loops handed over.
    fn receive(&mut self) {
        for (unit, asked_at) in self.work.handoff().map(Handoff::take).unwrap_or_default() {
            redrive_store::failpoint!("engine.unit.handed_over");
            let lease = self.work.lease(&unit);
            self.held.add([lease], asked_at);
            if is_late(&*self.work, asked_at) {
                self.let_go(lease, LATE);
            } else {
                self.claimed.push_back(unit);
            }
        }
    }

    fn took(&mut self, claim: Result<Claim<W>>) {
        self.nothing_left = false;
        let woken = std::mem::take(&mut self.woken);
        match claim {
            Ok(claim) => {
                let (all, backlog) = (claim.units.len() == claim.asked, claim.backlog);
                let late = claim.late;
                self.hold(claim);
                if late {
                    tracing::warn!(work = self.work.name(), "a claim was answered too late");
                    self.return_claimed(LATE);
                }
                if !all && !woken {
                    self.look_later(backlog);
                }
            }
            Err(error) => {
                tracing::warn!(
                    work = self.work.name(),
                    error = &error as &dyn std::error::Error,
                    "cannot claim"
                );
                self.look_at = Some(later(self.work.now(), self.work.limits().poll));
            }
        }
    }

    fn hold(&mut self, claim: Claim<W>) {
        self.held.add(claim.units.iter().map(|unit| self.work.lease(unit)), claim.asked_at);
        self.claimed.extend(claim.units);
    }

    /// Looks at once; after the claim under way, if there is one.
    fn look_again(&mut self) {
        self.look_at = None;
        self.woken = self.claiming.is_some();
    }

    /// Looks again after the poll interval, or when the next waiting unit is due. Sooner after a claim that
    /// brought something: there may be more that came a moment too late for it.
    fn look_later(&mut self, backlog: Option<Backlog>) {
        let (now, poll) = (self.work.now(), self.work.limits().poll);
        let poll = later(now, if backlog.is_some() { poll } else { poll / SOONER });
        let due = backlog.and_then(|backlog| backlog.next_due);
        self.look_at = Some(due.map_or(poll, |due| due.clamp(now, poll)));
        self.nothing_left = backlog
            .is_some_and(|backlog| !backlog.ready && !backlog.held && backlog.next_due.is_none());
    }

    /// A clock that was set back must not make the loop look away for longer.
    fn rest(&self) -> Duration {
        let poll = self.work.limits().poll;
        let Some(at) = self.look_at else { return poll };
        let wait = at.duration_since(self.work.now()).max(SignedDuration::ZERO);
        wait.try_into().unwrap_or(poll).min(poll)
    }

    fn ended(&mut self, ended: std::result::Result<(Id, W::Outcome), JoinError>) {
        let (id, outcome) = match ended {
            Ok(ended) => ended,
            Err(error) => (error.id(), panicked(error).into()),
        };
        let Some(Started { unit, at, stop }) = self.started.remove(&id) else { return };
        redrive_store::failpoint!("engine.unit.ended");
        let now = self.work.now();
        self.appetite.ended(now);
        let lease = self.work.lease(&unit);
        let ending = match self.work.end(&unit, outcome, at, now) {
            // It would come back at once, uncounted, for ever.
            Ending::LeaseRelease if !stop.is_stopped() => {
                self.work.end(&unit, stopped_unasked().into(), at, now)
            }
            ending => ending,
        };
        match ending {
            Ending::Finish(end) => {
                self.pause.forget();
                self.held.ended(lease);
                self.settle(Fate::Ended(end));
            }
            Ending::LeaseRelease if self.held.grip(lease) == LeaseHealth::Firm => {
                self.let_go(lease, SHUTDOWN);
            }
            Ending::LeaseRelease => self.let_go(lease, LATE),
            Ending::Unable(why) => {
                self.let_go(lease, why);
                // It could not be tried either.
                self.return_claimed(why);
                self.pause.begin();
            }
        }
    }

    /// Gives up a unit without an attempt, unless someone else has it already.
    fn let_go(&self, lease: LeaseRef, why: &'static str) {
        if self.held.grip(lease) == LeaseHealth::Lost {
            self.held.remove([lease]);
        } else {
            self.held.ended(lease);
            self.settle(Fate::Returned(lease, why));
        }
    }

    /// The finisher listens as long as this loop lives.
    fn settle(&self, fate: Fate<W::End>) {
        _ = self.fates.send(fate);
    }

    fn is_drained(&self) -> bool {
        self.nothing_left && self.held.len() == 0 && self.coming() == 0 && self.claiming.is_none()
    }

    /// Takes nothing more, returns what was not begun, lets the rest end within the grace time, stops
    /// what is left then, and returns that too.
    async fn wind_down(&mut self) {
        redrive_store::failpoint!("engine.stop.begun");
        self.offer_nothing();
        self.return_claimed(SHUTDOWN);
        let grace = self.work.limits().grace;
        _ = tokio::time::timeout(grace, self.end_running()).await;
        self.held.stop_all();
        _ = tokio::time::timeout(grace, self.end_running()).await;
        // What did not stop in twice the grace time is dropped, which ends it.
        self.running.shutdown().await;
        for (_, begun) in std::mem::take(&mut self.started) {
            self.let_go(self.work.lease(&begun.unit), SHUTDOWN);
        }
        // As long as for the finisher that has them.
        _ = tokio::time::timeout(self.work.limits().lease, self.end_handover()).await;
    }

    /// Until nothing more is handed over. What still comes goes back.
    async fn end_handover(&mut self) {
        loop {
            self.receive();
            self.return_claimed(SHUTDOWN);
            if self.coming() == 0 {
                return;
            }
            arrived(self.work.handoff()).await;
        }
    }

    /// Until nothing runs any more. A claim that is answered only now goes back.
    async fn end_running(&mut self) {
        while !self.running.is_empty() || self.claiming.is_some() {
            tokio::select! {
                biased;
                Some(ended) = self.running.join_next_with_id() => self.ended(ended),
                claim = claim_of(&mut self.claiming) => {
                    if let Ok(claim) = claim {
                        self.hold(claim);
                        self.return_claimed(SHUTDOWN);
                    }
                }
                () = arrived(self.work.handoff()) => {
                    self.receive();
                    self.return_claimed(SHUTDOWN);
                }
            }
        }
    }

    /// Returns what was not begun.
    fn return_claimed(&mut self, why: &'static str) {
        for unit in std::mem::take(&mut self.claimed) {
            self.let_go(self.work.lease(&unit), why);
        }
    }
}
