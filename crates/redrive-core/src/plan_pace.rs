//! What a plan does next: change units, wait, abort or end (PLN-2).
//!
//! The pace is kept without a memory of what was missed: after each batch the plan waits as long as the units of that batch take
//! at the pace. So a pause, a kill or a slow store never leads to a burst: no window of the pace's period has more units than
//! the pace allows.

use std::{fmt, time::Duration};

use jiff::Timestamp;

use crate::{AbortShare, PlanSettings};

/// The most units of one step.
pub const MAX_PLAN_STEP: u32 = 1_000;

/// Units of a faster pace are changed in batches of about so much time.
const BATCH_TIME: Duration = Duration::from_millis(50);

/// Where a ramp begins, as a part of the pace.
const RAMP_START: f64 = 0.1;

/// Outcomes of units that are needed for a judgement after the canary: a few say nothing.
const MIN_OUTCOMES: u64 = 10;

/// The units of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlanCounts {
    pub total: u64,
    pub changed: u64,
    /// Units that the plan left as they were: they had changed, or their state refuses the action.
    pub skipped: u64,
    /// Changed units whose outcome is not known yet.
    pub pending: u64,
    pub recovered: u64,
    /// Changed units that failed again, of the cause that they had before.
    pub same_cause: u64,
    pub other_cause: u64,
}

impl PlanCounts {
    /// Units that were changed or skipped.
    pub fn position(&self) -> u64 {
        self.changed.saturating_add(self.skipped)
    }

    /// Units that were neither changed nor skipped.
    pub fn rest(&self) -> u64 {
        self.total.saturating_sub(self.position())
    }

    pub fn failed(&self) -> u64 {
        self.same_cause.saturating_add(self.other_cause)
    }

    /// Changed units whose outcome is known. Those that others changed before they ended have none.
    pub fn ended(&self) -> u64 {
        self.recovered.saturating_add(self.failed())
    }

    /// Changed units that have an outcome, or will have one.
    pub fn tried(&self) -> u64 {
        self.pending.saturating_add(self.ended())
    }
}

/// When a plan may change further units, on a clock that does not jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlanTiming {
    /// The start of the ramp: the first unit after the canary, or the last resume.
    pub ramp_from: Option<Timestamp>,
    /// The pace allows no unit before.
    pub next_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum PlanStep {
    Change(PlanBatch),
    WaitUntil(Timestamp),
    /// Enough units for the canary were changed, and some have not ended.
    WaitForCanary,
    Abort(PlanAbort),
    /// Every unit was changed or skipped.
    Complete,
}

/// Units to change now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanBatch {
    /// At most so many. Units that are skipped are not counted.
    pub units: u32,
    /// The units that were changed or skipped when this was decided. A batch that reaches the store late, after another one,
    /// must change nothing: it would exceed the pace.
    pub position: u64,
    /// The time that the pace gives each unit.
    pub interval: Duration,
    pub ramp_from: Option<Timestamp>,
}

impl PlanBatch {
    /// When the pace allows the next unit, after so many of this batch were changed.
    pub fn next_at(&self, changed: u32, at: Timestamp) -> Timestamp {
        let wait = self.interval.saturating_mul(changed);
        // In whole microseconds, as stores keep them; a truncated time would be too early.
        let next = at.checked_add(wait + Duration::from_nanos(999)).unwrap_or(Timestamp::MAX);
        Timestamp::from_microsecond(next.as_microsecond()).unwrap_or(next)
    }
}

/// Why a plan is aborted. The text becomes its stop reason.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanAbort {
    pub canary: bool,
    pub failed: u64,
    pub same_cause: u64,
    /// Units that have ended, or all of a canary.
    pub of: u64,
    pub ended: u64,
    pub limit: AbortShare,
}

impl fmt::Display for PlanAbort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { canary, failed, same_cause, of, ended, limit } = self;
        let units = if *canary { "canary units" } else { "units" };
        // Enough failures decide before all units of a canary have ended.
        match ended < of {
            true => write!(f, "{failed} of the {ended} {units} that ended failed again, ")?,
            false => write!(f, "{failed} of {of} {units} failed again, ")?,
        }
        match failed.saturating_sub(*same_cause) {
            0 => write!(f, "each of the same cause as before")?,
            others => {
                write!(f, "{same_cause} of the same cause as before and {others} of another")?
            }
        }
        write!(f, "; the plan aborts from {limit}")?;
        if ended < of { write!(f, " of its {of} {units}") } else { Ok(()) }
    }
}

impl PlanSettings {
    /// What to do at `now`. Counts that are older than the truth only lead to waiting. The canary goes on with further units
    /// until so many of them have an outcome: units that others changed before they ended say nothing.
    ///
    /// ```
    /// use jiff::Timestamp;
    /// use redrive_core::{PlanCounts, PlanSettings, PlanStep, PlanTiming};
    ///
    /// let settings = PlanSettings::new(Some(10), Some("50/s".parse()?), None, None)?;
    /// let counts = PlanCounts { total: 2_000, changed: 10, same_cause: 2, pending: 8, ..PlanCounts::default() };
    /// let step = settings.next_step(&counts, &PlanTiming::default(), Timestamp::UNIX_EPOCH);
    /// let PlanStep::Abort(why) = step else { panic!("{step:?}") };
    /// assert_eq!(
    ///     why.to_string(),
    ///     "2 of the 2 canary units that ended failed again, each of the same cause as before; \
    ///      the plan aborts from 20% of its 10 canary units",
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_step(&self, counts: &PlanCounts, timing: &PlanTiming, now: Timestamp) -> PlanStep {
        if counts.rest() == 0 {
            return PlanStep::Complete;
        }
        if let Some(abort) = self.abort(counts) {
            return PlanStep::Abort(abort);
        }
        let canary = self.canary().filter(|canary| counts.ended() < *canary);
        let wanted = match canary.map(|canary| canary.saturating_sub(counts.tried())) {
            None => counts.rest(),
            Some(0) => return PlanStep::WaitForCanary,
            Some(units) => units.min(counts.rest()),
        };
        if let Some(next) = timing.next_at.filter(|next| *next > now) {
            return PlanStep::WaitUntil(next);
        }
        let first_of_rest = canary.is_none() && timing.ramp_from.is_none();
        let ramp_from = if first_of_rest { Some(now) } else { timing.ramp_from };
        let since = ramp_from.map_or(0.0, |from| now.duration_since(from).as_secs_f64());
        let speed =
            self.ramp().map_or(1.0, |ramp| (since / ramp.as_secs_f64()).clamp(RAMP_START, 1.0));
        let (batch, interval) = self.batch(speed);
        let units = u32::try_from(wanted).unwrap_or(u32::MAX).min(batch);
        PlanStep::Change(PlanBatch { units, position: counts.position(), interval, ramp_from })
    }

    /// The times of a plan whose executor takes over at `now`. The clock of a store may start again with its machine: then
    /// times of the past lie further in the future than the pace ever waits, and would never come.
    pub fn timing_at(&self, timing: &PlanTiming, now: Timestamp) -> PlanTiming {
        let wait = |speed: f64| {
            let (units, interval) = self.batch(speed);
            interval.saturating_mul(units) + Duration::from_micros(1)
        };
        let longest = wait(1.0).max(self.ramp().map_or(Duration::ZERO, |_| wait(RAMP_START)));
        let latest = now.checked_add(longest).unwrap_or(Timestamp::MAX);
        PlanTiming {
            ramp_from: timing.ramp_from.filter(|from| *from <= now),
            next_at: timing.next_at.map(|at| at.min(latest)),
        }
    }

    /// How long so many units take at the pace; `None` if there is none.
    pub fn time_for(&self, units: u64, timing: &PlanTiming, now: Timestamp) -> Option<Duration> {
        let seconds = units as f64 / self.pace()?.per_second();
        let ramp = self.ramp().unwrap_or_default().as_secs_f64();
        let begun = timing.ramp_from.map_or(0.0, |from| now.duration_since(from).as_secs_f64());
        // Seconds at the full pace that are worth as much as the ramp up to a time.
        let worth = |time: f64| {
            let (time, flat) = (time.min(ramp), ramp * RAMP_START);
            let rising = if time > flat { (time * time - flat * flat) / (2.0 * ramp) } else { 0.0 };
            time.min(flat) * RAMP_START + rising
        };
        let (done, all) = (worth(begun.max(0.0)), worth(ramp));
        let after = seconds - (all - done);
        let taken = if after >= 0.0 {
            (ramp - begun.clamp(0.0, ramp)) + after
        } else {
            let (target, flat) = (done + seconds, ramp * RAMP_START);
            let in_flat = target / RAMP_START;
            let end = if in_flat <= flat {
                in_flat
            } else {
                (2.0 * ramp * (target - flat * RAMP_START) + flat * flat).sqrt()
            };
            end - begun
        };
        Duration::try_from_secs_f64(taken).ok()
    }

    fn abort(&self, counts: &PlanCounts) -> Option<PlanAbort> {
        let limit = self.abort_if()?;
        let ended = counts.ended();
        let canary = self.canary().filter(|canary| ended <= *canary);
        let of = match canary {
            Some(canary) => canary,
            None if ended >= MIN_OUTCOMES => ended,
            None => return None,
        };
        let (failed, same_cause) = (counts.failed(), counts.same_cause);
        let canary = canary.is_some();
        let abort = PlanAbort { canary, failed, same_cause, of, ended, limit };
        limit.is_reached(failed, of).then_some(abort)
    }

    /// The most units at a part of the pace, and the time for each.
    fn batch(&self, speed: f64) -> (u32, Duration) {
        let Some(pace) = self.pace() else { return (MAX_PLAN_STEP, Duration::ZERO) };
        let batch = (pace.per_second() * BATCH_TIME.as_secs_f64()).min(f64::from(MAX_PLAN_STEP));
        let batch = (batch as u32).max(1);
        // A period that begins with one batch may end with another, so the others share the rest of the pace.
        let others = pace.units().saturating_sub(batch - 1).max(1);
        let interval = pace.period().as_secs_f64() / f64::from(others) / speed;
        let nanos = (interval * 1e9).ceil() as u64;
        (((f64::from(batch) * speed) as u32).max(1), Duration::from_nanos(nanos))
    }
}
