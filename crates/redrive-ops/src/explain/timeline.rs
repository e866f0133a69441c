//! The attempts at a unit and the waits between them, as pages and the terminal draw them.

use std::time::Duration;

use jiff::Timestamp;

use crate::{
    views::AttemptView,
    words::{between, rounded},
};

/// The newest steps that are drawn.
const MAX_STEPS: usize = 60;

/// A shorter gap is no wait: a worker claims and starts.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// A part of the life of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineStep {
    pub length: Duration,
    /// `None` for a wait.
    pub attempt: Option<TimelineAttempt>,
    /// In words.
    pub about: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelineAttempt {
    pub number: u32,
    /// As in the ledger.
    pub outcome: &'static str,
}

impl TimelineStep {
    /// One line for a terminal: `✗ 1.2s · 10s · ✗ 3s · 20s · ✓ 1s`.
    pub fn line(steps: &[Self]) -> String {
        let step = |step: &Self| {
            let length = rounded(step.length);
            match step.attempt.map(|attempt| attempt.outcome) {
                None => format!("wait {length}"),
                Some("success" | "skipped") => format!("✓ {length}"),
                Some(_) => format!("✗ {length}"),
            }
        };
        steps.iter().map(step).collect::<Vec<_>>().join(" → ")
    }
}

/// The newest steps, with the wait that goes on if the next step of the unit has a time.
pub fn timeline(
    attempts: &[AttemptView],
    next_at: Option<Timestamp>,
    now: Timestamp,
) -> Vec<TimelineStep> {
    let mut steps = Vec::new();
    let mut last: Option<(Timestamp, &AttemptView)> = None;
    for attempt in attempts {
        let times = (attempt.started_at.parse(), attempt.ended_at.parse());
        let (Ok(started_at), Ok(ended_at)): (Result<Timestamp, _>, Result<Timestamp, _>) = times
        else {
            continue;
        };
        if let Some((ended_at, before)) = last {
            steps.extend(wait(between(ended_at, started_at), before, "waited"));
        }
        steps.push(TimelineStep {
            length: attempt.took,
            attempt: Some(TimelineAttempt { number: attempt.attempt, outcome: attempt.outcome }),
            about: format!(
                "attempt {} at {started_at}: {}, took {}",
                attempt.attempt,
                attempt.outcome,
                rounded(attempt.took)
            ),
        });
        last = Some((ended_at, attempt));
    }
    if let (Some((ended_at, before)), Some(next_at)) = (last, next_at.filter(|at| *at > now)) {
        steps.extend(wait(between(ended_at, next_at), before, "waits"));
    }
    let surplus = steps.len().saturating_sub(MAX_STEPS);
    steps.drain(..surplus);
    steps
}

fn wait(length: Duration, after: &AttemptView, verb: &str) -> Option<TimelineStep> {
    let rule = after.rule.as_deref().map(|rule| format!(": {rule}")).unwrap_or_default();
    let about = format!("{verb} {}{rule}", rounded(length));
    (length >= SHORTEST_WAIT).then_some(TimelineStep { length, attempt: None, about })
}

#[cfg(test)]
mod tests {
    use redrive_core::AttemptNumber;
    use redrive_store::{AttemptOutcome, AttemptRecord, UnitKind, UnitRow};

    use super::*;

    fn attempt(number: u32, times: (i64, i64), outcome: AttemptOutcome) -> AttemptView {
        let at = |second| Timestamp::from_second(second).unwrap();
        let unit = UnitRow::new(UnitKind::Run, 1);
        let (started_at, ended_at) = (at(times.0), at(times.1));
        let record =
            AttemptRecord::success(unit, AttemptNumber(number), started_at, ended_at, "w1");
        AttemptView::from(&AttemptRecord { outcome, ..record }).with_rule("2s × 2^0".to_owned())
    }

    // OPS-3
    #[test]
    fn waits_are_between_the_attempts_with_the_rule_of_the_one_before() {
        use AttemptOutcome::{Retrying, Success};
        let attempts = [
            attempt(1, (0, 1), Retrying),
            attempt(2, (3, 4), Retrying),
            attempt(3, (4, 9), Success),
        ];
        let steps = timeline(&attempts, None, Timestamp::UNIX_EPOCH);
        assert_eq!(TimelineStep::line(&steps), "✗ 1s → wait 2s → ✗ 1s → ✓ 5s");
        assert_eq!(steps[1].about, "waited 2s: 2s × 2^0");
        let next = Timestamp::from_second(10).unwrap();
        let steps = timeline(&attempts[..2], Some(next), Timestamp::from_second(5).unwrap());
        assert_eq!(steps.last().unwrap().about, "waits 6s: 2s × 2^0");
        assert_eq!(timeline(&attempts[..2], Some(next), next).len(), 3, "the time has come");
    }
}
