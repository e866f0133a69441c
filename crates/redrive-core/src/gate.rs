//! What a gate lets through, and what it makes of the results of attempts (GAT-2 to GAT-5).
//!
//! ```text
//!            refused, tripped, by command                    period over
//!     open ─────────────────────────────────► closed ──────────────────────► probing (one unit)
//!      ▲                                       ▲  ▲         refused again        │ answered
//!      │                                       │  └──────────────────────────────┤
//!      └──── a step as large as what ran ──── ramping (2, 4, 8 … units at once) ◄┘
//! ```
//!
//! A gate without a key is one state, a divided gate one state for each key. All hosts share it: a store reads the state in
//! the transaction of a claim or a finish, asks the functions here, and writes what they return.
//!
//! Periods are on the wall clock, as retries are. Start times are on the clock of leases, which does not jump and is the same on
//! all hosts.

use std::time::Duration;

use jiff::Timestamp;

use crate::{GateEvent, GateSettings, GateStatus, IllegalTransition, Rate};

/// How far ahead a claim takes start times.
pub const START_HORIZON: Duration = Duration::from_millis(250);

/// The longest delay of a start beyond its time; at most a twentieth of the period.
const MAX_LATENESS: Duration = Duration::from_millis(250);

/// Clocks of hosts differ by less than this.
const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(600);

/// The longest wait that a server may ask for; a longer one is shortened.
const MAX_HINT: Duration = Duration::from_secs(86_400);

/// A key that nothing has passed for so long after its period opens by itself.
const IDLE_TIME: Duration = Duration::from_secs(3_600);

/// The share of failures that closes a ramping gate without a trip of its own.
const RAMP_FAILURES: f64 = 0.5;

/// The state of a gate, or of one key of a divided gate.
#[derive(Debug, Clone, PartialEq)]
pub struct GateState {
    pub status: GateStatus,
    /// Raised whenever the gate closes or opens. A unit that was started under another epoch says nothing about this one.
    pub epoch: u64,
    pub closed_at: Option<Timestamp>,
    /// `None` for a closed gate: until it is opened by command.
    pub closed_until: Option<Timestamp>,
    /// Who or what closed the gate: a unit or an operator.
    pub closed_by: Option<String>,
    pub reason: Option<String>,
    /// Closings since the gate was open, or a probe was answered.
    pub closings: u32,
    /// What ran at once when the gate closed; the last step is as large.
    pub target: u32,
    /// Units at once in this step, and how those that ended fared.
    pub width: u32,
    pub answered: u32,
    pub failed: u32,
    /// The attempts that a trip looks at.
    pub recent: RecentAttempts,
    /// The rate allows no start before, on the clock of leases.
    pub next_start: Option<Timestamp>,
}

/// Failures among the last attempts. While there are none, successes need not be counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecentAttempts {
    pub ended: u64,
    /// The number and the time of each failed attempt.
    pub failures: Vec<(u64, Timestamp)>,
}

/// Units that have permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct HeldPermits {
    pub all: u32,
    /// Those that were let through since the gate last closed or opened. The others end as they may, and its steps do not wait
    /// for them.
    pub current: u32,
}

/// How an attempt behind a gate ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateOutcome {
    /// The service did its work, or refused the content of the unit for good.
    Answered,
    /// A retryable failure.
    Failed,
    /// The service limits the rate. With the time that it asked for, if it named one.
    RateLimited { until: Option<Timestamp> },
    /// The attempt says nothing about the service: the worker was lost or stopped.
    Released,
}

/// The result of an attempt, for the gate that it passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateResult {
    pub outcome: GateOutcome,
    pub ended_at: Timestamp,
    /// The epoch under which the unit was let through; `None` if that was not noted, as it is while a gate is open.
    pub permit: Option<u64>,
    /// The unit, and its failure in short.
    pub unit: String,
    pub failure: Option<String>,
}

/// How the results of a batch changed a gate, as far as operators want to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateChange {
    Closed,
    Opened,
}

impl Default for GateState {
    fn default() -> Self {
        Self {
            status: GateStatus::Open,
            epoch: 0,
            closed_at: None,
            closed_until: None,
            closed_by: None,
            reason: None,
            closings: 0,
            target: 1,
            width: 0,
            answered: 0,
            failed: 0,
            recent: RecentAttempts::default(),
            next_start: None,
        }
    }
}

impl GateState {
    /// How many more units may be claimed; `None` for any number. `now` is the wall clock, `clock` that of leases.
    pub fn admits(
        &self,
        settings: &GateSettings,
        held: HeldPermits,
        now: Timestamp,
        clock: Timestamp,
    ) -> Option<u32> {
        let by_status = match self.status {
            GateStatus::Open => None,
            GateStatus::Closed => Some(u32::from(self.period_is_over(now))),
            GateStatus::Probing | GateStatus::Ramping => {
                Some(self.width.saturating_sub(held.current))
            }
        };
        let by_number = settings.concurrency().map(|most| most.saturating_sub(held.all));
        let by_rate = settings.rate().map(|rate| self.free_starts(rate, clock));
        [by_status, by_number, by_rate].into_iter().flatten().min()
    }

    /// Whether the units that are let through now are noted one by one.
    pub fn needs_permits(&self, settings: &GateSettings) -> bool {
        self.status != GateStatus::Open || settings.concurrency().is_some()
    }

    /// Lets units through: those that a closed gate admits are its probe.
    pub fn let_through(&mut self) {
        if self.status == GateStatus::Closed {
            self.to(GateEvent::Probe);
            (self.width, self.answered, self.failed) = (1, 0, 0);
        }
    }

    /// When the next unit may start on the clock of leases; `None` if no rate is declared.
    pub fn next_start(&self, settings: &GateSettings, clock: Timestamp) -> Option<Timestamp> {
        Some(self.first_start(settings.rate()?, clock))
    }

    /// Takes a start time, which is not before [`next_start`](Self::next_start). Returns how late the unit may start: later, the
    /// time has expired.
    pub fn take_start(&mut self, settings: &GateSettings, at: Timestamp) -> Option<Duration> {
        let rate = settings.rate()?;
        self.next_start = Some(at.checked_add(interval(rate)).unwrap_or(Timestamp::MAX));
        Some(lateness(rate))
    }

    /// Takes note of the results of attempts, in the order of their ends. `ran` is how many units run at once now, needed when
    /// the gate closes.
    pub fn record(
        &mut self,
        settings: &GateSettings,
        results: &[GateResult],
        ran: u32,
    ) -> Option<GateChange> {
        let before = self.status;
        for result in results {
            let is_current = result.permit == Some(self.epoch);
            match (self.status, &result.outcome) {
                (_, GateOutcome::Released) => {}
                (_, GateOutcome::RateLimited { until }) => {
                    self.refuse(settings, result, *until, ran);
                }
                (GateStatus::Open, outcome) => self.count(settings, result, outcome, ran),
                (GateStatus::Closed, _) => {}
                (GateStatus::Probing | GateStatus::Ramping, _) if !is_current => {}
                (GateStatus::Probing, GateOutcome::Failed) => {
                    self.refuse(settings, result, None, ran);
                }
                (GateStatus::Ramping, GateOutcome::Failed) => {
                    self.failed = self.failed.saturating_add(1);
                    self.end_step(settings, result, ran);
                }
                (GateStatus::Probing | GateStatus::Ramping, GateOutcome::Answered) => {
                    self.answered = self.answered.saturating_add(1);
                    self.end_step(settings, result, ran);
                }
            }
        }
        let open = GateStatus::Open;
        match (before == open, self.status == open) {
            (true, false) => Some(GateChange::Closed),
            (false, true) => Some(GateChange::Opened),
            _ => None,
        }
    }

    /// Whether results without failures change nothing.
    pub fn ignores_successes(&self) -> bool {
        self.status == GateStatus::Open && self.recent.failures.is_empty()
    }

    /// Closes the gate by command, until a time or until it is opened.
    pub fn close(
        &mut self,
        by: &str,
        reason: Option<&str>,
        now: Timestamp,
        until: Option<Timestamp>,
        ran: u32,
    ) {
        self.shut(GateEvent::Close, now, until, ran);
        (self.closed_by, self.reason) = (Some(by.to_owned()), reason.map(str::to_owned));
    }

    /// Opens the gate by command, without a probe.
    pub fn open(&mut self) -> Result<(), IllegalTransition> {
        self.status.apply(GateEvent::Open)?;
        self.unlock(GateEvent::Open);
        Ok(())
    }

    /// Opens a gate that nothing has passed for long after its period. Returns whether it did.
    pub fn open_idle(
        &mut self,
        settings: &GateSettings,
        held: HeldPermits,
        now: Timestamp,
    ) -> bool {
        let idle = IDLE_TIME.max(settings.cap().min(crate::MAX_DURATION));
        let is_idle = self.status != GateStatus::Open
            && held.all == 0
            && self.closed_until.is_some_and(|until| until <= now - idle);
        if is_idle {
            self.unlock(GateEvent::Open);
        }
        is_idle
    }

    /// A clock that was set back must not keep a gate closed for much longer than its period. The clock of another host may be
    /// behind that of the one that closed the gate.
    fn period_is_over(&self, now: Timestamp) -> bool {
        let Some(until) = self.closed_until else { return false };
        now >= until || self.closed_at.is_some_and(|at| now < at - MAX_CLOCK_DIFFERENCE)
    }

    fn refuse(
        &mut self,
        settings: &GateSettings,
        result: &GateResult,
        until: Option<Timestamp>,
        ran: u32,
    ) {
        let now = result.ended_at;
        let latest = now.checked_add(MAX_HINT).unwrap_or(Timestamp::MAX);
        let until = until.map(|until| until.min(latest));
        if self.status == GateStatus::Closed {
            // Of a unit that was started before. It may know more of the end, and nothing of an operator's order.
            self.closed_until =
                self.closed_until.map(|known| until.map_or(known, |it| it.max(known)));
            return;
        }
        // The first closing lasts as long as the server asked for; after a refused probe it is at least the growing period.
        let again = self.closings > 0;
        let period = settings.period(self.closings.saturating_add(1));
        let after_period = now.checked_add(period).unwrap_or(Timestamp::MAX);
        let until = match until {
            Some(hint) if again => hint.max(after_period),
            Some(hint) => hint,
            None => after_period,
        };
        self.shut(GateEvent::Refuse, now, Some(until), ran);
        self.blame(result, None);
    }

    fn blame(&mut self, result: &GateResult, reason: Option<String>) {
        self.closed_by = Some(result.unit.clone());
        self.reason = reason.or_else(|| result.failure.clone());
    }

    /// Counts an attempt behind an open gate, and closes it if too many have failed.
    fn count(
        &mut self,
        settings: &GateSettings,
        result: &GateResult,
        outcome: &GateOutcome,
        ran: u32,
    ) {
        let Some(trip) = settings.trip() else { return };
        let (now, recent) = (result.ended_at, &mut self.recent);
        recent.ended = recent.ended.saturating_add(1);
        if *outcome == GateOutcome::Failed {
            recent.failures.push((recent.ended, now));
        }
        let (oldest, ended) = (now - trip.within.min(crate::MAX_DURATION), recent.ended);
        recent.failures.retain(|(number, at)| {
            ended.saturating_sub(*number) < u64::from(trip.of) && *at > oldest
        });
        let failed = recent.failures.len();
        if failed as f64 > trip.failures * f64::from(trip.of) {
            let until = now.checked_add(settings.period(1)).unwrap_or(Timestamp::MAX);
            self.shut(GateEvent::Trip, now, Some(until), ran);
            let reason = format!("{failed} of the last {} attempts failed as retryable", trip.of);
            self.blame(result, Some(reason));
        }
    }

    /// Ends the step when as many units as it has have ended, or as soon as too many have failed.
    fn end_step(&mut self, settings: &GateSettings, result: &GateResult, ran: u32) {
        let most = settings.trip().map_or(RAMP_FAILURES, |trip| trip.failures);
        if f64::from(self.failed) > most * f64::from(self.width) {
            return self.refuse(settings, result, None, ran);
        }
        if self.answered.saturating_add(self.failed) < self.width {
            return;
        }
        if self.width >= self.target {
            self.unlock(GateEvent::Complete);
        } else {
            // The service answers: a refusal from now on is about how much it is asked, and not the next of a row.
            self.closings = 0;
            self.to(GateEvent::Widen);
            self.width = self.width.saturating_mul(2).min(self.target);
            (self.answered, self.failed) = (0, 0);
        }
    }

    fn shut(&mut self, event: GateEvent, now: Timestamp, until: Option<Timestamp>, ran: u32) {
        if self.status == GateStatus::Open {
            self.target = ran.max(1);
        }
        if self.status != GateStatus::Closed {
            self.epoch = self.epoch.saturating_add(1);
            self.closings = self.closings.saturating_add(1);
        }
        self.to(event);
        (self.closed_at, self.closed_until) = (Some(now), until);
        self.recent = RecentAttempts::default();
    }

    fn unlock(&mut self, event: GateEvent) {
        self.to(event);
        let next_start = self.next_start;
        *self = Self { epoch: self.epoch.saturating_add(1), next_start, ..Self::default() };
    }

    /// Callers ask for legal events only.
    fn to(&mut self, event: GateEvent) {
        self.status = self.status.apply(event).unwrap_or(self.status);
    }

    fn first_start(&self, rate: Rate, clock: Timestamp) -> Timestamp {
        // The clock of leases starts again with the machine; times of before would never come. Units that pass several gates take
        // times of the slowest, which may lie behind the horizon of another.
        let latest = clock + START_HORIZON * 4 + interval(rate);
        self.next_start.filter(|at| *at <= latest).map_or(clock, |at| at.max(clock))
    }

    fn free_starts(&self, rate: Rate, clock: Timestamp) -> u32 {
        let span = (clock + START_HORIZON).duration_since(self.first_start(rate, clock));
        let Ok(span) = Duration::try_from(span) else { return 0 };
        let more = span.as_nanos() / interval(rate).as_nanos().max(1);
        u32::try_from(more).unwrap_or(u32::MAX).saturating_add(1)
    }
}

fn lateness(rate: Rate) -> Duration {
    MAX_LATENESS.min(rate.period() / 20)
}

/// A start may come a little late, so starts are further apart than the rate allows: no period has more of them, however late each
/// is. In whole microseconds, as stores keep times; rounded up.
fn interval(rate: Rate) -> Duration {
    let interval = (rate.period() + lateness(rate)).as_micros().div_ceil(u128::from(rate.units()));
    Duration::from_micros(u64::try_from(interval).unwrap_or(u64::MAX))
}
