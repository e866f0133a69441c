//! What must be true of a world that has lived: every line of the source is in one place, and what came
//! out is what the stages made of it.

use std::collections::BTreeMap;

use redrive_core::{PipelineStatus, SampleStatus};
use redrive_store::{AttemptOutcome, AttemptRecord, Leased, PipelineRunRecord, SampleRecord};
use serde_json::Value;

use super::{
    super::{
        leases::lost_without_trouble,
        log::{Event, What},
    },
    cast::trail,
    executions,
    news::SampleNews,
    plan::{Line, Plan},
};

/// A world that has come to its end.
pub(crate) struct Lived {
    pub(super) seed: u64,
    pub(super) plan: Plan,
    pub(super) events: Vec<Event>,
    pub(super) runs: Vec<PipelineRunRecord>,
    pub(super) samples: Vec<SampleRecord>,
    pub(super) attempts: Vec<AttemptRecord>,
    pub(super) problems: Vec<String>,
}

/// Everything that is wrong with a world; nothing, if all is well.
pub(crate) fn judge(lived: &Lived) -> Vec<String> {
    let mut problems = lived.problems.clone();
    for run in &lived.runs {
        let found = run_is_over(run, lived).into_iter().chain(lines(run, lived));
        problems.extend(found.map(|problem| format!("pipeline run {}: {problem}", run.id)));
    }
    for sample in &lived.samples {
        let found = outcome(sample, lived);
        problems.extend(found.map(|problem| format!("sample:{}: {problem}", sample.id)));
    }
    problems.extend(executions::judge(lived));
    problems.extend(lost_without_trouble(Leased::Sample, &lived.events));
    problems.extend(read_ahead(lived));
    problems
}

fn run_is_over(run: &PipelineRunRecord, lived: &Lived) -> Option<String> {
    let tally = run.progress.counts;
    let expected = PipelineStatus::Running.apply(run.rules.conclude(&tally)).unwrap();
    if run.progress.status != expected || !tally.is_over() {
        return Some(format!("it is {} with {tally:?}", run.progress.status));
    }
    let count = (1..=lived.plan.lines).filter(|n| Line::of(lived.seed, *n) != Line::Blank).count();
    let read = (run.position.lines, tally.total);
    let there = (lived.plan.lines, count as u64);
    (read != there).then(|| format!("(lines, samples) read are {read:?} of {there:?}"))
}

/// Every line that is not blank is a sample, once.
fn lines(run: &PipelineRunRecord, lived: &Lived) -> Option<String> {
    let mut found: BTreeMap<u64, &SampleRecord> = BTreeMap::new();
    for sample in lived.samples.iter().filter(|sample| sample.run == run.id) {
        if found.insert(sample.line, sample).is_some() {
            return Some(format!("line {} is there twice", sample.line));
        }
    }
    let fits = |number: &u64| match (Line::of(lived.seed, *number), found.get(number)) {
        (Line::Blank, None) => true,
        (Line::Sample, Some(sample)) => {
            let data: Value = serde_json::from_str(sample.data.as_ref().unwrap()).unwrap();
            data["line"] == *number
        }
        (Line::Bad, Some(sample)) => sample.data.is_none() && sample.status == SampleStatus::Dlq,
        (Line::Blank, Some(_)) | (Line::Sample | Line::Bad, None) => false,
    };
    (1..=lived.plan.lines)
        .find(|number| !fits(number))
        .map(|number| format!("line {number} is wrong"))
}

/// What a sample has become is what the attempts that the ledger says succeeded made of it.
fn outcome(sample: &SampleRecord, lived: &Lived) -> Option<String> {
    let data: Value = serde_json::from_str(sample.data.as_ref()?).unwrap();
    let succeeded = |stage: &str| {
        let mut rows = lived.attempts.iter().filter(|row| {
            row.unit.id == sample.id.0
                && row.unit.stage == stage
                && row.outcome == AttemptOutcome::Success
        });
        rows.next().map(|row| (stage.to_owned(), row.attempt.0))
    };
    let made: Vec<(String, u32)> =
        lived.plan.stages.iter().map_while(|stage| succeeded(&stage.name)).collect();
    if trail(&data) != made {
        return Some(format!("it went through {:?}, the ledger says {made:?}", trail(&data)));
    }
    let through = made.len() == lived.plan.stages.len();
    let ended = sample.status == SampleStatus::Succeeded;
    (through != ended).then(|| format!("it is {} after {made:?}", sample.status))
}

/// Operators may bring back more than a run reads ahead; nobody else adds more.
fn read_ahead(lived: &Lived) -> Vec<String> {
    let most = u64::from(lived.plan.read_ahead);
    let too_many = lived.events.iter().filter(|event| match &event.what {
        What::Sample(SampleNews::Appended { samples: 1.., pending: Some(pending), .. }) => {
            *pending > most && !lived.plan.troubles.operators
        }
        _ => false,
    });
    too_many.map(|event| format!("more than {most} unfinished: {event:?}")).collect()
}
