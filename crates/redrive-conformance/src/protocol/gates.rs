//! A gate, workers that claim runs behind it, and an operator.
//!
//! There are always more runs to claim, so a run matters only while it is held. A worker holds one at most. It may be slow,
//! crash, or miss the response to a write; a lease may end under it, and it reports all the same.

use std::time::Duration;

use jiff::Timestamp;
use redrive_core::{GateOutcome, GateResult, GateSettings, GateState, GateStatus, HeldPermits};

use super::{explore::Model, gate_invariants::broken};

/// What the service asks for when it refuses a run. In [`GateModel`] a step takes far less.
pub(crate) const HINT: Duration = Duration::from_secs(30);

/// How long an operator closes the gate.
pub(crate) const CLOSED_FOR: Duration = Duration::from_secs(60);

const STEP: Duration = Duration::from_millis(1);

/// A rule that the model can break on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GateMutant {
    ClaimIgnoresGate,
    /// Units are let through before the period is over.
    ClaimIgnoresPeriod,
    ClaimIgnoresPermits,
    /// Units of before the gate closed keep its probe back.
    ClaimCountsOldPermits,
    ClaimWritesNoPermit,
    /// The result is written, and the gate is to be closed by another transaction.
    FinishDoesNotClose,
    /// A result counts for the gate although the finish was stale.
    StaleResultCounts,
    /// A result counts whatever gate the unit was let through.
    ResultIgnoresEpoch,
    /// The first answer opens the gate.
    ProbeOpens,
    ReleaseKeepsPermit,
    ReleaseIsAnAnswer,
    ReapKeepsPermit,
    /// A lost worker is taken for a failure of the service.
    ReapIsAFailure,
    CancelKeepsPermit,
    NoReaper,
    OrderIsForgotten,
}

impl GateMutant {
    pub const ALL: [Self; 16] = [
        Self::ClaimIgnoresGate,
        Self::ClaimIgnoresPeriod,
        Self::ClaimIgnoresPermits,
        Self::ClaimCountsOldPermits,
        Self::ClaimWritesNoPermit,
        Self::FinishDoesNotClose,
        Self::StaleResultCounts,
        Self::ResultIgnoresEpoch,
        Self::ProbeOpens,
        Self::ReleaseKeepsPermit,
        Self::ReleaseIsAnAnswer,
        Self::ReapKeepsPermit,
        Self::ReapIsAFailure,
        Self::CancelKeepsPermit,
        Self::NoReaper,
        Self::OrderIsForgotten,
    ];
}

/// How a unit was let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelPass {
    /// The epoch of the gate in the permit, if there is one.
    pub permit: Option<u64>,
    /// How often the gate had closed or opened. Only the invariants use it; no actor can see it.
    pub(super) turn: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GateWorker {
    /// Holds nothing. A crashed worker restarts idle once its lease has ended.
    Idle,
    Holds(ModelPass),
    /// The worker is gone, and its lease has not ended.
    Crashed(ModelPass),
    /// The lease is over, and the worker does not know.
    Late(ModelPass),
}

/// What a worker reports of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GateReport {
    Answered,
    /// A retryable failure.
    Failed,
    /// The service limits the rate.
    Refused,
    /// Released without an attempt.
    Released,
}

/// One step. The number is the index of the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GateStep {
    Claim(usize),
    /// A worker writes its report. The flag says whether the worker receives the response.
    Report(usize, GateReport, bool),
    Crash(usize),
    /// A reaper finds that the lease of a worker has ended, and reports the worker as lost.
    Reap(usize),
    /// An operator cancels the run of a worker.
    Cancel(usize),
    PeriodEnds,
    /// An operator closes the gate for a time, or until it is opened.
    Close {
        for_a_time: bool,
    },
    Open,
}

#[derive(Debug, Clone, PartialEq)]
pub struct GateModel {
    pub settings: GateSettings,
    pub state: GateState,
    pub workers: Vec<GateWorker>,
    pub now: Timestamp,
    /// The epoch of a permit that outlived its lease, because a mutant left it.
    stray_permit: Option<u64>,
    pub(super) turn: u64,
}

/// What equivalent gates have in common: epochs and times matter only relative to those of the gate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RelativeGate {
    status: GateStatus,
    period: Period,
    target: u32,
    width: u32,
    answered: u32,
    failed: u32,
    /// Whether it is of this epoch.
    stray: Option<bool>,
    workers: Vec<GateWorker>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Period {
    Running,
    Over,
    /// Until an operator opens the gate.
    Unlimited,
}

/// The gate, the step, and what a statement reads of the units that are held.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct GateSituation {
    gate: RelativeGate,
    step: GateStep,
    /// Of an actor that holds its unit: whether the permit, if there is one, is of this epoch.
    actor: Option<Option<bool>>,
    permits: HeldPermits,
    held: u32,
}

impl GateModel {
    pub fn new(settings: GateSettings, workers: usize) -> Self {
        Self {
            settings,
            state: GateState::default(),
            workers: vec![GateWorker::Idle; workers],
            now: Timestamp::UNIX_EPOCH,
            stray_permit: None,
            turn: 0,
        }
    }

    /// Units whose leases have not ended.
    pub(super) fn held(&self) -> impl Iterator<Item = ModelPass> {
        self.workers.iter().filter_map(|worker| match worker {
            GateWorker::Holds(pass) | GateWorker::Crashed(pass) => Some(*pass),
            GateWorker::Idle | GateWorker::Late(_) => None,
        })
    }

    fn count_held(&self) -> u32 {
        u32::try_from(self.held().count()).unwrap_or(u32::MAX)
    }

    /// Units that a claim counts.
    pub fn permits(&self) -> HeldPermits {
        let epochs = self.held().filter_map(|pass| pass.permit).chain(self.stray_permit);
        let mut held = HeldPermits::default();
        for epoch in epochs {
            held.all += 1;
            held.current += u32::from(epoch == self.state.epoch);
        }
        held
    }

    /// Whether the gate is closed now, and no unit may pass.
    pub(super) fn is_closed(&self) -> bool {
        self.state.status == GateStatus::Closed && self.period() != Period::Over
    }

    fn period(&self) -> Period {
        match self.state.closed_until {
            None => Period::Unlimited,
            Some(until) if self.now >= until => Period::Over,
            Some(_) => Period::Running,
        }
    }

    /// `claim_runs`.
    fn claim(&mut self, mutant: Option<GateMutant>) -> Option<ModelPass> {
        let mut now = self.now;
        if mutant == Some(GateMutant::ClaimIgnoresPeriod) {
            now = self.state.closed_until.unwrap_or(now);
        }
        let mut permits = self.permits();
        match mutant {
            Some(GateMutant::ClaimIgnoresPermits) => permits = HeldPermits::default(),
            Some(GateMutant::ClaimCountsOldPermits) => permits.current = permits.all,
            _ => {}
        }
        let admitted = self.state.admits(&self.settings, permits, now, self.now);
        if admitted == Some(0) && mutant != Some(GateMutant::ClaimIgnoresGate) {
            return None;
        }
        self.state.let_through();
        let is_noted = self.state.needs_permits(&self.settings)
            && mutant != Some(GateMutant::ClaimWritesNoPermit);
        Some(ModelPass { permit: is_noted.then_some(self.state.epoch), turn: self.turn })
    }

    /// What `finish_runs` makes of a result, in its transaction.
    fn record(&mut self, outcome: GateOutcome, pass: ModelPass, mutant: Option<GateMutant>) {
        if mutant == Some(GateMutant::FinishDoesNotClose) {
            return;
        }
        let permit = match mutant {
            Some(GateMutant::ResultIgnoresEpoch) => Some(self.state.epoch),
            _ => pass.permit,
        };
        let (unit, failure) = ("run:1".to_owned(), None);
        let result = GateResult { outcome, ended_at: self.now, permit, unit, failure };
        let before = self.state.clone();
        let ran = self.count_held().saturating_add(1);
        self.state.record(&self.settings, &[result], ran);
        let opened = before.status == GateStatus::Probing
            && self.state.status == GateStatus::Ramping
            && mutant == Some(GateMutant::ProbeOpens);
        if opened {
            self.state = GateState { epoch: before.epoch + 1, ..GateState::default() };
        }
    }

    fn report(
        &mut self,
        worker: GateWorker,
        report: GateReport,
        mutant: Option<GateMutant>,
    ) -> Option<GateWorker> {
        let outcome = match report {
            GateReport::Answered => GateOutcome::Answered,
            GateReport::Failed => GateOutcome::Failed,
            GateReport::Refused => {
                GateOutcome::RateLimited { until: self.now.checked_add(HINT).ok() }
            }
            GateReport::Released if mutant == Some(GateMutant::ReleaseIsAnAnswer) => {
                GateOutcome::Answered
            }
            GateReport::Released => GateOutcome::Released,
        };
        match worker {
            GateWorker::Holds(pass) => {
                let keeps = report == GateReport::Released
                    && mutant == Some(GateMutant::ReleaseKeepsPermit);
                self.leave(pass, keeps);
                self.record(outcome, pass, mutant);
            }
            GateWorker::Late(pass) if mutant == Some(GateMutant::StaleResultCounts) => {
                self.record(outcome, pass, mutant);
            }
            GateWorker::Late(_) => {}
            GateWorker::Idle | GateWorker::Crashed(_) => return None,
        }
        Some(worker)
    }

    /// A mutant leaves the permit of a lease that has ended. One is enough.
    fn leave(&mut self, pass: ModelPass, keeps: bool) {
        if keeps && pass.permit.is_some() {
            self.stray_permit = pass.permit;
        }
    }

    fn set(&mut self, at: usize, worker: GateWorker) -> Option<()> {
        *self.workers.get_mut(at)? = worker;
        Some(())
    }

    fn operate(&mut self, step: GateStep, mutant: Option<GateMutant>) -> Option<()> {
        if mutant == Some(GateMutant::OrderIsForgotten) {
            return Some(());
        }
        match step {
            GateStep::Close { for_a_time } => {
                let until = for_a_time.then(|| self.now + CLOSED_FOR);
                let held = self.count_held();
                self.state.close("ada", None, self.now, until, held);
                Some(())
            }
            _ => self.state.open().ok(),
        }
    }
}

impl Model for GateModel {
    type Step = GateStep;
    /// Whether a claim took a unit.
    type Effects = bool;
    type Mutant = GateMutant;
    type Relative = RelativeGate;
    type Situation = GateSituation;

    fn relative(&self) -> RelativeGate {
        let pass = |pass: ModelPass| ModelPass {
            permit: pass.permit.map(|epoch| u64::from(epoch == self.state.epoch)),
            turn: u64::from(pass.turn == self.turn),
        };
        let worker = |worker: &GateWorker| match *worker {
            GateWorker::Idle => GateWorker::Idle,
            GateWorker::Holds(it) => GateWorker::Holds(pass(it)),
            GateWorker::Crashed(it) => GateWorker::Crashed(pass(it)),
            GateWorker::Late(it) => GateWorker::Late(pass(it)),
        };
        let mut workers: Vec<GateWorker> = self.workers.iter().map(worker).collect();
        workers.sort_unstable();
        let GateState { status, target, width, answered, failed, .. } = self.state;
        let period = self.period();
        let stray = self.stray_permit.map(|epoch| epoch == self.state.epoch);
        RelativeGate { status, period, target, width, answered, failed, stray, workers }
    }

    fn situation(&self, step: GateStep) -> GateSituation {
        let actor = |at: usize| match self.workers.get(at).copied().unwrap_or(GateWorker::Idle) {
            GateWorker::Idle => None,
            GateWorker::Holds(pass) | GateWorker::Crashed(pass) => {
                Some(pass.permit.map(|epoch| epoch == self.state.epoch))
            }
            // No statement finds the permit.
            GateWorker::Late(_) => None,
        };
        let gate = Self { workers: Vec::new(), ..self.clone() }.relative();
        let status_alone =
            RelativeGate { target: 0, width: 0, answered: 0, failed: 0, ..gate.clone() };
        let without_results = RelativeGate { target: 0, answered: 0, failed: 0, ..gate.clone() };
        let (permits, held, none) = (self.permits(), self.count_held(), HeldPermits::default());
        let (step, gate, actor, permits, held) = match step {
            GateStep::Claim(_) => (GateStep::Claim(0), without_results, None, permits, 0),
            GateStep::Report(at, report, _) => {
                let step = GateStep::Report(0, report, true);
                match (actor(at), report) {
                    (None, _) | (_, GateReport::Released) => {
                        (step, status_alone, actor(at), none, 0)
                    }
                    (_, GateReport::Refused) => (step, gate, actor(at), none, held),
                    (_, GateReport::Answered | GateReport::Failed) => {
                        (step, gate, actor(at), none, 0)
                    }
                }
            }
            GateStep::Reap(at) => (GateStep::Reap(0), status_alone, actor(at), none, 0),
            GateStep::Cancel(at) => (GateStep::Cancel(0), status_alone, actor(at), none, 0),
            GateStep::Close { .. } | GateStep::Open => (step, status_alone, None, none, held),
            // Nothing is written.
            GateStep::Crash(_) | GateStep::PeriodEnds => {
                let nothing = RelativeGate { status: GateStatus::Open, ..status_alone };
                (GateStep::PeriodEnds, nothing, None, none, 0)
            }
        };
        GateSituation { gate, step, actor, permits, held }
    }

    fn steps(&self, mutant: Option<GateMutant>) -> Vec<GateStep> {
        let mut steps =
            vec![GateStep::Close { for_a_time: true }, GateStep::Close { for_a_time: false }];
        if self.state.status != GateStatus::Open {
            steps.push(GateStep::Open);
        }
        if self.state.status == GateStatus::Closed && self.period() == Period::Running {
            steps.push(GateStep::PeriodEnds);
        }
        let reports =
            [GateReport::Answered, GateReport::Failed, GateReport::Refused, GateReport::Released];
        for (at, worker) in self.workers.iter().enumerate() {
            match worker {
                GateWorker::Idle => steps.push(GateStep::Claim(at)),
                GateWorker::Holds(_) | GateWorker::Late(_) => {
                    let both = |report| {
                        [true, false].map(|acknowledged| GateStep::Report(at, report, acknowledged))
                    };
                    steps.extend(reports.into_iter().flat_map(both));
                    steps.push(GateStep::Crash(at));
                }
                GateWorker::Crashed(_) => {}
            }
            if matches!(worker, GateWorker::Holds(_) | GateWorker::Crashed(_)) {
                steps.push(GateStep::Cancel(at));
                if mutant != Some(GateMutant::NoReaper) {
                    steps.push(GateStep::Reap(at));
                }
            }
        }
        steps
    }

    fn after(&self, step: GateStep, mutant: Option<GateMutant>) -> Option<(Self, bool)> {
        let mut next = self.clone();
        next.now = self.now.checked_add(STEP).ok()?;
        let mut took = false;
        match step {
            GateStep::Claim(at) => {
                if let Some(pass) = next.claim(mutant) {
                    next.set(at, GateWorker::Holds(pass))?;
                    took = true;
                }
            }
            GateStep::Report(at, report, acknowledged) => {
                let worker = *self.workers.get(at)?;
                // Its lease ends with the report.
                next.set(at, GateWorker::Idle)?;
                let worker = next.report(worker, report, mutant)?;
                if let (GateWorker::Holds(pass) | GateWorker::Late(pass), false) =
                    (worker, acknowledged)
                {
                    next.set(at, GateWorker::Late(pass))?;
                }
            }
            GateStep::Crash(at) => match *self.workers.get(at)? {
                GateWorker::Holds(pass) => next.set(at, GateWorker::Crashed(pass))?,
                _ => next.set(at, GateWorker::Idle)?,
            },
            GateStep::Reap(at) | GateStep::Cancel(at) => {
                let (pass, left) = match *self.workers.get(at)? {
                    GateWorker::Holds(pass) => (pass, GateWorker::Late(pass)),
                    GateWorker::Crashed(pass) => (pass, GateWorker::Idle),
                    GateWorker::Idle | GateWorker::Late(_) => return None,
                };
                next.set(at, left)?;
                let reaped = matches!(step, GateStep::Reap(_));
                let kept = if reaped {
                    GateMutant::ReapKeepsPermit
                } else {
                    GateMutant::CancelKeepsPermit
                };
                next.leave(pass, mutant == Some(kept));
                if reaped && mutant == Some(GateMutant::ReapIsAFailure) {
                    next.record(GateOutcome::Failed, pass, mutant);
                }
            }
            GateStep::PeriodEnds => next.now = self.state.closed_until?,
            GateStep::Close { .. } | GateStep::Open => next.operate(step, mutant)?,
        }
        // Counted by what can be seen, not by the epoch of the gate.
        let (was, is) = (self.state.status, next.state.status);
        let turned = was != is && matches!(is, GateStatus::Open | GateStatus::Closed);
        next.turn += u64::from(turned);
        Some((next, took))
    }

    fn broken(&self, step: GateStep, after: &Self, took: &bool) -> Option<&'static str> {
        broken(self, step, after, *took)
    }

    fn is_progress(&self, step: GateStep) -> bool {
        match step {
            GateStep::Claim(_) | GateStep::Reap(_) | GateStep::PeriodEnds => true,
            GateStep::Report(_, report, acknowledged) => {
                acknowledged && report == GateReport::Answered
            }
            // Nothing else opens a gate that an operator closed for as long as may be.
            GateStep::Open => self.state.closed_until.is_none(),
            GateStep::Crash(_) | GateStep::Cancel(_) | GateStep::Close { .. } => false,
        }
    }

    fn is_end(&self) -> bool {
        self.state.status == GateStatus::Open
    }
}
