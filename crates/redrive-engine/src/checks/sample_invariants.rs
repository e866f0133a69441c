//! What must be true of a sample and its attempts at every stage, as a pure function of both and of what
//! its run says.

use redrive_core::{PipelineStatus, SampleState, Unit};
use redrive_store::{AttemptOutcome, AttemptRecord, PipelineRunRecord, SampleRecord};

use crate::checks::checker::{Finding, Invariant};

/// A sample as its judges see it.
struct StageAttempts<'a> {
    /// The attempts at the stages before its own, stage by stage.
    before: Vec<(&'a str, Vec<&'a AttemptRecord>)>,
    /// Those at its own.
    here: Vec<&'a AttemptRecord>,
    /// An attempt at another stage than these.
    stray: Option<&'a AttemptRecord>,
}

impl<'a> StageAttempts<'a> {
    fn new(sample: &SampleRecord, run: &'a PipelineRunRecord, all: &'a [AttemptRecord]) -> Self {
        let place = usize::try_from(sample.stage).unwrap_or(usize::MAX);
        let at = |stage: &str| all.iter().filter(|row| row.unit.stage == stage).collect::<Vec<_>>();
        let gone_through: Vec<&str> = run.stages.iter().take(place).map(String::as_str).collect();
        let own = run.stage_name(sample.stage);
        let stray = |row: &&AttemptRecord| {
            let stage = row.unit.stage.as_str();
            stage != own && !gone_through.contains(&stage)
        };
        Self {
            stray: all.iter().find(stray),
            before: gone_through.iter().map(|stage| (*stage, at(stage))).collect(),
            here: at(own),
        }
    }
}

/// Everything that is wrong with a sample, as far as it, its run and its attempts tell.
pub(crate) fn check_sample(
    sample: &SampleRecord,
    run: &PipelineRunRecord,
    attempts: &[AttemptRecord],
) -> Vec<Finding> {
    let stages = StageAttempts::new(sample, run, attempts);
    let problems = [
        (Invariant::LedgerNumbers, numbers(sample, &stages)),
        (Invariant::RetryCount, retry_count(sample, &stages.here)),
        (Invariant::Lease, lease(sample, attempts.len())),
        (
            Invariant::StatusMatchesLedger,
            place(sample, run).or_else(|| status_matches_ledger(sample, run, &stages)),
        ),
        (Invariant::RetryTime, retry_time(sample, &stages.here)),
        (Invariant::WakeUp, wake_up(sample, run)),
    ];
    let unit = Unit::Sample { id: sample.id, stage: sample.stage_name.clone() }.to_string();
    let finding = |(invariant, problem): (Invariant, Option<String>)| {
        problem.map(|problem| Finding { invariant, unit: unit.clone(), problem })
    };
    problems.into_iter().filter_map(finding).collect()
}

fn numbers(sample: &SampleRecord, stages: &StageAttempts<'_>) -> Option<String> {
    let own = (sample.stage_name.as_str(), &stages.here);
    for (stage, rows) in stages.before.iter().map(|(stage, rows)| (*stage, rows)).chain([own]) {
        let gap = rows.iter().zip(1..).find(|(row, expected)| row.attempt.0 != *expected);
        if let Some((row, expected)) = gap {
            let found = row.attempt;
            return Some(format!(
                "the ledger has attempt {found} at {stage} where {expected} belongs"
            ));
        }
    }
    let (rows, counted) = (stages.here.len(), sample.attempts);
    if rows != counted as usize {
        return Some(format!("it counts {counted} attempts, the ledger has {rows}"));
    }
    let reset = sample.attempts_at_reset;
    (reset > counted).then(|| format!("it was brought back after {reset} attempts of {counted}"))
}

/// A dead letter keeps its count to be read, until an operator brings it back.
fn retry_count(sample: &SampleRecord, here: &[&AttemptRecord]) -> Option<String> {
    let since_reset = here.iter().filter(|row| row.attempt.0 > sample.attempts_at_reset);
    let retries = match sample.state() {
        SampleState::Succeeded | SampleState::Skipped => 0,
        _ => {
            since_reset.filter(|row| row.outcome == AttemptOutcome::Retrying && row.counted).count()
        }
    };
    (retries != sample.retry_count as usize).then(|| {
        format!("retry_count is {}, the ledger has {retries} counted retries", sample.retry_count)
    })
}

fn lease(sample: &SampleRecord, rows: usize) -> Option<String> {
    let held = sample.lease_owner.is_some();
    if held != sample.lease_until.is_some() {
        return Some("its lease is not whole: owner and end go together".to_owned());
    }
    if held && sample.state() != SampleState::Running {
        return Some(format!("it is {}, and someone holds it", sample.status));
    }
    let claims = i64::try_from(rows).unwrap_or(i64::MAX).saturating_add(i64::from(held));
    (sample.lease_epoch.0 < claims)
        .then(|| format!("epoch {} is lower than its {claims} claims", sample.lease_epoch))
}

/// Where it stands in its source and on its way.
fn place(sample: &SampleRecord, run: &PipelineRunRecord) -> Option<String> {
    let (line, lines) = (sample.line, run.position.lines);
    if line == 0 || line > lines {
        return Some(format!("it is line {line}, and {lines} lines were read"));
    }
    let (stage, stages) = (sample.stage, run.stages.len());
    (stage as usize >= stages).then(|| format!("it is at stage {stage} of {stages}"))
}

fn status_matches_ledger(
    sample: &SampleRecord,
    run: &PipelineRunRecord,
    stages: &StageAttempts<'_>,
) -> Option<String> {
    if let Some(row) = stages.stray {
        let stage = &row.unit.stage;
        return Some(format!("it has not come to stage {stage}, and the ledger has it there"));
    }
    for (stage, rows) in &stages.before {
        if rows.last().map(|row| row.outcome) != Some(AttemptOutcome::Success) {
            return Some(format!("it is past stage {stage}, and the ledger has no success there"));
        }
    }
    let passed = |rows: &[&AttemptRecord]| {
        let ends = [AttemptOutcome::Success, AttemptOutcome::Skipped];
        rows.split_last().is_some_and(|(_, early)| early.iter().any(|r| ends.contains(&r.outcome)))
    };
    let twice = stages.before.iter().find(|(_, rows)| passed(rows)).map(|(stage, _)| *stage);
    if let Some(stage) = twice.or_else(|| passed(&stages.here).then_some(&sample.stage_name)) {
        return Some(format!("it went on with stage {stage} after it had ended there"));
    }
    let state = sample.state();
    let last = stages.here.last().map(|row| row.outcome);
    let fits = match state {
        SampleState::Ready | SampleState::Running => match last {
            None | Some(AttemptOutcome::Retrying) => true,
            Some(AttemptOutcome::Failed) => sample.attempts_at_reset == sample.attempts,
            Some(AttemptOutcome::Success | AttemptOutcome::Skipped) => false,
        },
        SampleState::WaitingForRetry => last == Some(AttemptOutcome::Retrying),
        SampleState::Succeeded => {
            last == Some(AttemptOutcome::Success) && sample.stage as usize + 1 == run.stages.len()
        }
        SampleState::Skipped => last == Some(AttemptOutcome::Skipped),
        // A line that was no sample never came to a stage.
        SampleState::Dead if sample.data.is_none() => last.is_none() && sample.stage == 0,
        SampleState::Dead => last == Some(AttemptOutcome::Failed),
    };
    (!fits).then(|| {
        let last = last.map_or("nothing", AttemptOutcome::name);
        format!("it is {}, and the last the ledger has is {last}", state.name())
    })
}

fn retry_time(sample: &SampleRecord, here: &[&AttemptRecord]) -> Option<String> {
    let (next, last) = (sample.next_retry_at?, here.last()?);
    let earliest = last.ended_at.checked_add(last.delay?).ok()?;
    (next < earliest).then(|| format!("its retry at {next} comes before {earliest}"))
}

/// What is unfinished is held, waits for its time, or is ready; and its run is not over. A run that was
/// stopped keeps what is left until it is resumed.
fn wake_up(sample: &SampleRecord, run: &PipelineRunRecord) -> Option<String> {
    let status = run.progress.status;
    let over = match status {
        PipelineStatus::Running | PipelineStatus::Aborted | PipelineStatus::Cancelled => false,
        PipelineStatus::Completed | PipelineStatus::PartialSuccess | PipelineStatus::Failed => true,
    };
    let unfinished = match sample.state() {
        SampleState::Ready | SampleState::Running | SampleState::WaitingForRetry => true,
        SampleState::Succeeded | SampleState::Skipped | SampleState::Dead => false,
    };
    (over && unfinished).then(|| format!("it is {}, and its run is {status}", sample.status))
}
