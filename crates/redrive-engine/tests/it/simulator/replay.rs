//! 8, 9, 10: what was decided, decided again by hand, and replayed to the state that is stored.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use redrive_core::{
    Backoff, Cause, GateStatus, Jitter, PolicySpec, Retriable, RunState, RunStatus,
};
use redrive_store::{AttemptOutcome, AttemptRecord, RunAction, RunChange, RunRecord, Written};

use super::{
    gate_sightings::Deed,
    lived::Lived,
    log::What,
    script::{Act, Script, status_of},
    verdict::token_of,
};

/// Rounding to microseconds, and floating point done in another order.
const SLACK: Duration = Duration::from_millis(1);

/// A run as it must be stored.
struct Model {
    state: RunState,
    status: String,
    attempts: u32,
    at_reset: u32,
    retries: u32,
    deferrals: u32,
    lost: u32,
    first_at: Option<Timestamp>,
    /// Whether the attempt that ends was the probe of a gate.
    is_probe: bool,
    /// From when it may be claimed, and the place in the log since when that is so.
    due: Option<(Timestamp, usize)>,
    give_ups: Vec<&'static str>,
}

/// What must be decided about a failure.
enum Due {
    GiveUp(&'static str),
    Retry { least: Duration, most: Duration, counted: bool },
}

/// Where in the log workers asked for what is due, and by when, of each queue.
type Looks<'a> = BTreeMap<&'a str, Vec<(usize, Timestamp)>>;

/// The runs, with the epochs of their leases, that were claimed as the probe of a gate.
fn probes(lived: &Lived) -> BTreeSet<(i64, i64)> {
    let mut probes = BTreeSet::new();
    for event in &lived.events {
        let What::AtGate(sighting) = &event.what else { continue };
        let Deed::Claimed { units, .. } = &sighting.deed else { continue };
        if sighting.after.as_ref().is_some_and(|row| row.state.status == GateStatus::Probing) {
            probes.extend(units.iter().map(|unit| (unit.run, unit.epoch)));
        }
    }
    probes
}

pub(crate) fn judge(lived: &Lived) -> Vec<String> {
    let mut events: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    let mut looks = Looks::new();
    for (at, event) in lived.events.iter().enumerate() {
        if let What::Looked { queue, now } = &event.what {
            looks.entry(queue).or_default().push((at, *now));
        }
        if let What::Claimed { run, .. }
        | What::Finished { run, written: Written::Applied, .. }
        | What::Asked { run, change: RunChange::Done(_), .. } = event.what
        {
            events.entry(run).or_default().push(at);
        }
    }
    let (mut problems, probes) = (Vec::new(), probes(lived));
    for run in &lived.runs {
        let story = events.get(&run.id.0).map_or(&[][..], Vec::as_slice);
        let found = replay(run, story, &looks, &probes, lived);
        problems.extend(found.into_iter().map(|problem| format!("run {}: {problem}", run.id)));
    }
    problems
}

/// A run that was due once stays so, also when the clock is set back: what counts is the latest time
/// that any worker asked with since then.
fn latest_look(looks: &Looks<'_>, queue: &str, since: usize, to: usize) -> Option<Timestamp> {
    let looks = looks.get(queue)?;
    let within = looks.iter().filter(|(at, _)| (since..to).contains(at));
    within.map(|(_, now)| *now).max()
}

fn replay(
    run: &RunRecord,
    story: &[usize],
    looks: &Looks<'_>,
    probes: &BTreeSet<(i64, i64)>,
    lived: &Lived,
) -> Vec<String> {
    let rows = lived.attempts.get(&run.id.0).map_or(&[][..], Vec::as_slice);
    let mut problems = Vec::new();
    let mut model = Model {
        state: RunState::Discovered,
        status: RunStatus::Discovered.name().to_owned(),
        attempts: 0,
        at_reset: 0,
        retries: 0,
        deferrals: 0,
        lost: 0,
        first_at: None,
        is_probe: false,
        due: run.not_before.map(|at| (at, 0)),
        give_ups: Vec::new(),
    };
    for at in story {
        let event = &lived.events[*at];
        match &event.what {
            What::Claimed { .. } => {
                if let Some((due, since)) = model.due
                    && latest_look(looks, &run.queue, since, *at).is_none_or(|now| now < due)
                {
                    problems.push(format!("claimed before {due}: {event:?}"));
                }
            }
            What::Finished { attempt, epoch, now, .. } => match rows.get(*attempt as usize - 1) {
                Some(row) => {
                    let lost = row.cause == Some(Cause::LostWorker);
                    model.is_probe = !lost && probes.contains(&(run.id.0, *epoch));
                    problems.extend(model.ended(run, row, *at, lived));
                    // A retry that is due when it is written is claimable from then on.
                    model.due = model.due.filter(|(due, _)| due > now);
                }
                None => problems.push(format!("attempt {attempt} is not in the ledger")),
            },
            What::Asked { action, .. } => model.asked(*action),
            _ => {}
        }
    }
    problems.extend(model.differences(run, lived));
    problems
}

impl Model {
    fn ended(
        &mut self,
        run: &RunRecord,
        row: &AttemptRecord,
        at: usize,
        lived: &Lived,
    ) -> Option<String> {
        self.attempts += 1;
        let first = *self.first_at.get_or_insert(row.started_at);
        self.due = None;
        let queue = lived.plan.queue(&run.queue);
        let scene = lived.script.scene(token_of(run), row.attempt.0, queue.limits.lease);
        if row.outcome == AttemptOutcome::Success {
            (self.retries, self.deferrals) = (0, 0);
            let Act::Judge(verdict) = scene.act else {
                return Some(format!("attempt {} succeeded, which it cannot", row.attempt));
            };
            self.status = status_of(verdict).to_owned();
            self.state = RunState::Passed;
            return None;
        }
        let hint = hint(&lived.script, token_of(run), row, queue.limits.lease);
        let expected = self.decide(queue.policy.spec(), row, first, hint);
        self.deferrals = if hint.is_some() || self.is_probe { self.deferrals + 1 } else { 0 };
        self.status = RunStatus::Error.name().to_owned();
        let told = (row.outcome, row.counted, row.delay);
        match expected {
            Due::GiveUp(reason) => {
                self.state = RunState::GivenUp;
                self.give_ups.push(reason);
                (row.outcome != AttemptOutcome::Failed)
                    .then(|| format!("attempt {} gives up, {reason}: {told:?}", row.attempt))
            }
            Due::Retry { least, most, counted } => {
                self.state = RunState::WaitingForRetry;
                self.retries += u32::from(counted);
                let lost = row.cause == Some(Cause::LostWorker);
                self.lost += u32::from(lost && !counted);
                let delay = row.delay.unwrap_or_default();
                self.due = Some((row.ended_at + delay, at));
                let right = row.outcome == AttemptOutcome::Retrying
                    && row.counted == counted
                    && delay + SLACK >= least
                    && delay <= most + SLACK;
                (!right).then(|| {
                    let number = row.attempt;
                    format!("attempt {number} waits {least:?} to {most:?}, {counted}: {told:?}")
                })
            }
        }
    }

    fn decide(
        &self,
        spec: &PolicySpec,
        row: &AttemptRecord,
        first: Timestamp,
        hint: Option<Duration>,
    ) -> Due {
        let class = row.class.as_deref().unwrap();
        let code = row.code.as_deref().unwrap();
        // The one failure that states its class as final.
        if class == "final" && code == "500" {
            return Due::GiveUp("final");
        }
        match &spec.retriable {
            Retriable::None => return Due::GiveUp("not_retriable"),
            Retriable::Codes(codes) if !codes.iter().any(|known| known.to_string() == code) => {
                return Due::GiveUp("not_retriable");
            }
            Retriable::ByClass if class == "final" => return Due::GiveUp("final"),
            Retriable::ByClass | Retriable::All | Retriable::Codes(_) => {}
        }
        let max_lost = spec.max_lost.filter(|_| row.cause == Some(Cause::LostWorker));
        let (n, max) = match max_lost {
            Some(max) => (self.lost + 1, Some(max)),
            None => (self.retries + 1, spec.max_attempts),
        };
        let is_free_probe = self.is_probe && self.deferrals < spec.max_deferrals;
        if !is_free_probe && max.is_some_and(|max| n >= max) {
            return Due::GiveUp("attempts_exhausted");
        }
        let age = Duration::try_from(row.ended_at.duration_since(first)).unwrap_or_default();
        if spec.max_age.is_some_and(|max| age >= max) {
            return Due::GiveUp("too_old");
        }
        if let Some(hint) = hint {
            let delay = hint.min(spec.max_hint);
            let counted = self.deferrals >= spec.max_deferrals;
            return Due::Retry { least: delay, most: delay, counted };
        }
        let (least, most) = backoff(spec, n);
        let counted = match self.is_probe {
            true => self.deferrals >= spec.max_deferrals,
            false => max_lost.is_none(),
        };
        Due::Retry { least, most, counted }
    }

    fn asked(&mut self, action: RunAction) {
        self.due = None;
        match action {
            RunAction::Retry => {
                self.state = RunState::Discovered;
                self.at_reset = self.attempts;
                (self.retries, self.deferrals, self.lost, self.first_at) = (0, 0, 0, None);
            }
            RunAction::Cancel => self.state = RunState::Cancelled,
        }
        self.status = self.state.status().name().to_owned();
    }

    /// 8, 9: what is stored is what the story leads to.
    fn differences(&self, run: &RunRecord, lived: &Lived) -> Vec<String> {
        let unit = format!("run:{}", run.id);
        let give_ups = lived.journal.iter().filter(|record| {
            record.entry.action == "run.giveup" && record.entry.unit.as_ref() == Some(&unit)
        });
        let reason = |record: &redrive_store::JournalRecord| {
            let details: serde_json::Value = serde_json::from_str(&record.entry.details).unwrap();
            details["reason"].as_str().unwrap().to_owned()
        };
        let give_ups: Vec<String> = give_ups.map(reason).collect();
        let waits = run.next_retry_at.is_some();
        let expected = (
            (self.status.as_str(), self.state == RunState::WaitingForRetry),
            (self.attempts, self.at_reset, self.retries, self.deferrals),
            &self.give_ups[..],
        );
        let stored = (
            (run.status.name(), waits),
            (run.attempts, run.attempts_at_reset, run.retry_count, run.deferrals),
            &give_ups[..],
        );
        let same = expected.0 == stored.0
            && expected.1 == stored.1
            && expected.2.iter().eq(stored.2.iter());
        if same { Vec::new() } else { vec![format!("{stored:?} is stored for {expected:?}")] }
    }
}

/// The hint that an attempt was given, which the ledger does not keep.
fn hint(script: &Script, token: u64, row: &AttemptRecord, lease: Duration) -> Option<Duration> {
    match script.scene(token, row.attempt.0, lease).act {
        Act::Fail(failure) if row.class.as_deref() == Some("rate_limited") => {
            failure.class().hint()
        }
        _ => None,
    }
}

/// The least and the most that the n-th backoff may be.
fn backoff(spec: &PolicySpec, n: u32) -> (Duration, Duration) {
    let base = spec.base.as_secs_f64();
    let cap = spec.cap.as_secs_f64();
    let wait = match spec.backoff {
        Backoff::Fixed => base,
        Backoff::Linear => (base * f64::from(n)).min(cap),
        Backoff::Exponential => (base * spec.multiplier.powi(n as i32 - 1)).min(cap),
    };
    let (least, most) = match spec.jitter {
        Jitter::None => (wait, wait),
        Jitter::Absolute(by) => (wait - by.as_secs_f64(), wait + by.as_secs_f64()),
        Jitter::Fraction(by) => (wait * (1.0 - by), wait * (1.0 + by)),
        Jitter::Full => (0.0, wait),
    };
    (Duration::from_secs_f64(least.max(0.0)), Duration::from_secs_f64(most))
}
