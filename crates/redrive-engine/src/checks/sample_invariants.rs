//! What must hold for a sample and its attempts at every stage, as a pure function of the sample, its pipeline run
//! and its attempts.

use redrive_core::{PipelineStatus, SampleState, SampleStatus, Unit};
use redrive_store::{AttemptOutcome, AttemptRecord, PipelineRunRecord, SampleRecord};

use crate::checks::checker::{Finding, Invariant};

/// The attempts of a sample, by stage.
struct StageAttempts<'a> {
    /// The attempts at earlier stages, in the order of the stages.
    before: Vec<(&'a str, Vec<&'a AttemptRecord>)>,
    /// The attempts at the current stage.
    current: Vec<&'a AttemptRecord>,
    /// The attempts at later stages, where the sample was before it was read again.
    later: Vec<(&'a str, Vec<&'a AttemptRecord>)>,
    /// An attempt at a stage that the pipeline run does not have.
    stray: Option<&'a AttemptRecord>,
}

impl<'a> StageAttempts<'a> {
    fn new(sample: &SampleRecord, run: &'a PipelineRunRecord, all: &'a [AttemptRecord]) -> Self {
        let stage_index = usize::try_from(sample.stage).unwrap_or(usize::MAX);
        let at = |stage: &str| all.iter().filter(|row| row.unit.stage == stage).collect::<Vec<_>>();
        let by_stage = |stages: &'a [String]| {
            stages.iter().map(|stage| (stage.as_str(), at(stage))).collect::<Vec<_>>()
        };
        let (before, rest) = run.stages.split_at(stage_index.min(run.stages.len()));
        Self {
            before: by_stage(before),
            current: at(run.stage_name(sample.stage)),
            later: by_stage(rest.get(1..).unwrap_or_default()),
            stray: all.iter().find(|row| !run.stages.contains(&row.unit.stage)),
        }
    }

    /// An attempt that the sample cannot have made. A stage is passed once, and once more for each time that the sample died
    /// at a later stage: it may have been read again (FIX-3).
    fn misplaced(&self, sample: &SampleRecord) -> Option<String> {
        let dead_end = |rows: &[&AttemptRecord]| {
            rows.last().is_some_and(|last| last.outcome == AttemptOutcome::Failed)
        };
        let reached = self.later.iter().rfind(|(_, rows)| !rows.is_empty());
        let ahead = reached.filter(|(_, rows)| !dead_end(rows));
        if let Some(stage) =
            self.stray.map(|row| row.unit.stage.as_str()).or(ahead.map(|(stage, _)| *stage))
        {
            return Some(format!(
                "the ledger has an attempt at stage {stage}, which the sample has not reached"
            ));
        }
        let ended =
            sample.status == SampleStatus::Succeeded || sample.status == SampleStatus::Skipped;
        let later = self.later.iter().rev().map(|(stage, rows)| (*stage, rows, 0));
        let current = [(sample.stage_name.as_str(), &self.current, usize::from(ended))];
        let before = self.before.iter().rev().map(|(stage, rows)| (*stage, rows, 1));
        let mut deaths = 0;
        for (stage, rows, last) in later.chain(current).chain(before) {
            let of = |outcomes: &[AttemptOutcome]| {
                rows.iter().filter(|row| outcomes.contains(&row.outcome)).count()
            };
            if of(&[AttemptOutcome::Success, AttemptOutcome::Skipped]) > deaths + last {
                return Some(format!(
                    "the ledger has attempts at stage {stage} after the sample passed it"
                ));
            }
            deaths += of(&[AttemptOutcome::Failed]);
        }
        None
    }
}

pub(crate) fn check_sample(
    sample: &SampleRecord,
    run: &PipelineRunRecord,
    attempts: &[AttemptRecord],
) -> Vec<Finding> {
    let stages = StageAttempts::new(sample, run, attempts);
    let problems = [
        (Invariant::LedgerNumbers, numbers(sample, &stages)),
        (Invariant::RetryCount, retry_count(sample, &stages.current)),
        (Invariant::Lease, lease(sample, attempts.len())),
        (
            Invariant::StatusMatchesLedger,
            position(sample, run)
                .or_else(|| stages.misplaced(sample))
                .or_else(|| status_matches_ledger(sample, run, &stages)),
        ),
        (Invariant::RetryTime, retry_time(sample, &stages.current)),
        (Invariant::WakeUp, wake_up(sample, run)),
    ];
    let unit = Unit::Sample { id: sample.id, stage: sample.stage_name.clone() }.to_string();
    let finding = |(invariant, problem): (Invariant, Option<String>)| {
        problem.map(|problem| Finding { invariant, unit: unit.clone(), problem })
    };
    problems.into_iter().filter_map(finding).collect()
}

fn numbers(sample: &SampleRecord, stages: &StageAttempts<'_>) -> Option<String> {
    let own = (sample.stage_name.as_str(), &stages.current);
    let others = stages.before.iter().chain(&stages.later).map(|(stage, rows)| (*stage, rows));
    for (stage, rows) in others.chain([own]) {
        let gap = rows.iter().zip(1..).find(|(row, expected)| row.attempt.0 != *expected);
        if let Some((row, expected)) = gap {
            let found = row.attempt;
            return Some(format!(
                "the ledger has attempt {found} at stage {stage} instead of attempt {expected}"
            ));
        }
    }
    let (rows, counted) = (stages.current.len(), sample.attempts);
    if rows != counted as usize {
        return Some(format!("attempts is {counted}, but the ledger has {rows} attempts"));
    }
    let reset = sample.attempts_at_reset;
    (reset > counted)
        .then(|| format!("attempts_at_reset is {reset}, more than attempts ({counted})"))
}

/// A dead letter keeps its count, for operators to read, until one of them reprocesses it.
fn retry_count(sample: &SampleRecord, current: &[&AttemptRecord]) -> Option<String> {
    let since_reset = current.iter().filter(|row| row.attempt.0 > sample.attempts_at_reset);
    let retries = match sample.state() {
        SampleState::Succeeded | SampleState::Skipped => 0,
        _ => {
            since_reset.filter(|row| row.outcome == AttemptOutcome::Retrying && row.counted).count()
        }
    };
    (retries != sample.retry_count as usize).then(|| {
        format!(
            "retry_count is {}, but the ledger has {retries} counted retries",
            sample.retry_count
        )
    })
}

fn lease(sample: &SampleRecord, rows: usize) -> Option<String> {
    let held = sample.lease_owner.is_some();
    if held != sample.lease_until.is_some() {
        return Some(
            "the lease is incomplete: only one of lease_owner and lease_until is set".to_owned(),
        );
    }
    if held && sample.state() != SampleState::Running {
        return Some(format!("status is {}, but a worker holds a lease", sample.status));
    }
    let claims = i64::try_from(rows).unwrap_or(i64::MAX).saturating_add(i64::from(held));
    (sample.lease_epoch.0 < claims).then(|| {
        format!("epoch {} is lower than the number of claims ({claims})", sample.lease_epoch)
    })
}

/// The line in the source and the stage must exist.
fn position(sample: &SampleRecord, run: &PipelineRunRecord) -> Option<String> {
    let (line, lines) = (sample.line, run.position.lines);
    if line == 0 || line > lines {
        return Some(format!("line is {line}, but {lines} lines of the source were read"));
    }
    let (stage, stages) = (sample.stage, run.stages.len());
    (stage as usize >= stages)
        .then(|| format!("stage is {stage}, but the pipeline run has {stages} stages"))
}

fn status_matches_ledger(
    sample: &SampleRecord,
    run: &PipelineRunRecord,
    stages: &StageAttempts<'_>,
) -> Option<String> {
    for (stage, rows) in &stages.before {
        if rows.last().map(|row| row.outcome) != Some(AttemptOutcome::Success) {
            return Some(format!(
                "the sample is past stage {stage}, but the ledger has no success there"
            ));
        }
    }
    let state = sample.state();
    let last = stages.current.last().map(|row| row.outcome);
    let fits = match state {
        SampleState::Ready | SampleState::Running => match last {
            None | Some(AttemptOutcome::Retrying) => true,
            Some(AttemptOutcome::Failed | AttemptOutcome::Success) => {
                sample.attempts_at_reset == sample.attempts
            }
            Some(AttemptOutcome::Skipped) => false,
        },
        SampleState::WaitingForRetry => last == Some(AttemptOutcome::Retrying),
        SampleState::Succeeded => {
            last == Some(AttemptOutcome::Success) && sample.stage as usize + 1 == run.stages.len()
        }
        SampleState::Skipped => last == Some(AttemptOutcome::Skipped),
        // A line that is not a valid sample never reaches a stage.
        SampleState::Dead if sample.attempts == 0 => last.is_none() && sample.stage == 0,
        SampleState::Dead => last == Some(AttemptOutcome::Failed) && sample.data.is_some(),
    };
    (!fits).then(|| {
        let last = last.map_or("nothing", AttemptOutcome::name);
        format!("the sample is {}, but the last attempt at its stage is {last}", state.name())
    })
}

fn retry_time(sample: &SampleRecord, current: &[&AttemptRecord]) -> Option<String> {
    let (next, last) = (sample.next_retry_at?, current.last()?);
    let earliest = last.ended_at.checked_add(last.delay?).ok()?;
    (next < earliest)
        .then(|| format!("next_retry_at is {next}, before the decided time {earliest}"))
}

/// A run with unfinished samples has not ended. An aborted or cancelled run keeps its unfinished samples until
/// the run is resumed.
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
    (over && unfinished)
        .then(|| format!("the sample is {}, but its pipeline run is {status}", sample.status))
}
