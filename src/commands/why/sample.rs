//! All there is to tell of a sample, over all stages.

use jiff::Timestamp;
use redrive::{
    AttemptNumber, PipelineRunRecord, PipelineStatus, Policy, SampleId, SampleRecord, SampleState,
    Unit,
};
use redrive_engine::{Clock, SystemClock};
use redrive_store::{
    AttemptOutcome, JournalFilter, JournalRecord, MAX_PAGE, Result, SOURCE_STAGE, UnitKind, UnitRow,
};
use serde::Serialize;

use super::{
    next::{Next, apart},
    rule::Rules,
    story::{Actions, AttemptRow, JournalRow, told},
};
use crate::{
    commands::dlq::SampleRow,
    context::Context,
    exit::{Exit, Failure},
    output::{Column, Row},
    pipeline_desk::PipelineDesk,
};

/// What the journal calls the turns of a sample's story.
const ACTIONS: Actions = Actions { gives_up: "sample.dead", resets: "sample.reprocess" };

/// A sample's story.
#[derive(Debug, Serialize)]
pub(super) struct SampleStory {
    unit: String,
    sample: SampleRow,
    run_status: &'static str,
    stages: Vec<StageStory>,
    journal: Vec<JournalRow>,
    next: Next,
}

/// What happened at one stage.
#[derive(Debug, Serialize)]
struct StageStory {
    stage: String,
    attempts: Vec<AttemptRow>,
    /// In words, what the stage made of it so far.
    outcome: &'static str,
    #[serde(skip)]
    journal: Vec<JournalRecord>,
}

impl SampleStory {
    /// Reads it; `None` if there is no such sample.
    pub(super) async fn read(id: SampleId, desk: &PipelineDesk) -> Result<Option<Self>> {
        let store = &*desk.store;
        let Some(sample) = store.samples_by_id(&[id]).await?.pop() else { return Ok(None) };
        let Some(run) = desk.control.run(sample.run).await? else { return Ok(None) };
        let mut stages = Vec::new();
        let source = Some(SOURCE_STAGE).filter(|_| sample.data.is_none());
        for stage in source.into_iter().chain(run.stages.iter().map(String::as_str)) {
            stages.push(read_stage(stage, &sample, desk).await?);
        }
        let surroundings =
            Surroundings { run: &run, desk, now: SystemClock.now(), lease_now: store.now() };
        let last_rule = stages.iter().rev().find_map(|stage| stage.attempts.last());
        let next = next(&sample, last_rule.map(AttemptRow::rule), &surroundings);
        let told = stages.iter().flat_map(|stage| stage.journal.iter().cloned());
        let mut journal: Vec<JournalRecord> = told.collect();
        journal.sort_by_key(|row| row.id);
        Ok(Some(Self {
            unit: Unit::Sample { id, stage: sample.stage_name.clone() }.to_string(),
            sample: sample.into(),
            run_status: run.progress.status.name(),
            stages,
            journal: journal.into_iter().map(JournalRow::from).collect(),
            next,
        }))
    }

    /// One stage of it alone, if one was named.
    pub(super) fn only(mut self, stage: Option<&str>) -> std::result::Result<Self, Failure> {
        let Some(stage) = stage else { return Ok(self) };
        let known: Vec<&str> = self.stages.iter().map(|known| known.stage.as_str()).collect();
        if !known.contains(&stage) {
            let message = format!("its pipeline has no stage {stage:?}");
            return Err(Failure::new(Exit::Error, message)
                .help(format!("the stages are {}", known.join(", "))));
        }
        self.stages.retain(|known| known.stage == stage);
        let told = self.stages.iter().flat_map(|stage| stage.journal.iter().cloned());
        self.journal = told.map(JournalRow::from).collect();
        Ok(self)
    }

    /// Prints it: an object, or one part below the other.
    pub(super) fn print(&self, context: &Context) -> std::result::Result<(), Failure> {
        let output = context.output;
        if !output.is_table() {
            return output.record(self);
        }
        output.record(&self.sample)?;
        for stage in &self.stages {
            let title = format!("stage {}: {}", stage.stage, stage.outcome);
            output.remark_list(&title, &stage.attempts)?;
        }
        let untried = self.stages.iter().filter(|stage| stage.attempts.is_empty());
        let untried: Vec<String> =
            untried.map(|stage| format!("stage {}: {}", stage.stage, stage.outcome)).collect();
        if !untried.is_empty() {
            output.remark(&untried.join("\n"))?;
        }
        output.remark_list("journal", &self.journal)?;
        output.remark(&format!("next: {}", self.next.sentence()))
    }
}

impl Row for SampleStory {
    const COLUMNS: &'static [Column] = SampleRow::COLUMNS;

    fn cells(&self) -> Vec<String> {
        self.sample.cells()
    }
}

async fn read_stage(stage: &str, sample: &SampleRecord, desk: &PipelineDesk) -> Result<StageStory> {
    let unit = Unit::Sample { id: sample.id, stage: stage.to_owned() };
    let row = UnitRow { kind: UnitKind::Sample, id: sample.id.0, stage: stage.to_owned() };
    let attempts = desk.store.attempts_of(&row, AttemptNumber(0), MAX_PAGE).await?;
    let filter = JournalFilter { unit: Some(unit.to_string()), action: None };
    let journal = desk.store.journal_page(&filter, 0, MAX_PAGE).await?;
    let seed = desk.config.as_ref().map(|config| config.jitter_seed).unwrap_or_default();
    let rules = Rules::new(policy(stage, sample, desk), seed, &unit);
    let here = sample.stage_name == stage;
    let reset = if here { sample.attempts_at_reset } else { 0 };
    let outcome = match attempts.last().map(|last| last.outcome) {
        Some(AttemptOutcome::Success) => "done",
        Some(AttemptOutcome::Skipped) => "skipped",
        Some(AttemptOutcome::Failed) if sample.state() == SampleState::Dead => "dead",
        None if here && sample.state() == SampleState::Dead => "dead",
        _ if here => "here it is",
        _ => "not reached",
    };
    Ok(StageStory {
        stage: stage.to_owned(),
        attempts: told(&attempts, reset, &journal, ACTIONS, &rules),
        outcome,
        journal,
    })
}

/// The policy that a stage has today.
fn policy(stage: &str, sample: &SampleRecord, desk: &PipelineDesk) -> Option<Policy> {
    let pipeline = desk.config.as_ref()?.pipeline(&sample.pipeline)?;
    let stage = pipeline.stages.iter().find(|declared| declared.name == stage)?;
    Some(stage.policy.policy.clone())
}

/// What there is to know besides the sample itself.
struct Surroundings<'a> {
    run: &'a PipelineRunRecord,
    desk: &'a PipelineDesk,
    /// The wall clock.
    now: Timestamp,
    /// The clock of leases.
    lease_now: Timestamp,
}

fn next(sample: &SampleRecord, last_rule: Option<&str>, around: &Surroundings<'_>) -> Next {
    let stage = &sample.stage_name;
    let (state, at, because) = match sample.state() {
        SampleState::Ready => {
            let because = format!("ready: the next free worker has it at stage {stage}");
            ("ready", None, because + &obstacle(sample, around))
        }
        SampleState::WaitingForRetry => {
            let due = sample.next_retry_at.unwrap_or(around.now);
            let why = last_rule.unwrap_or("the last attempt failed");
            let because = match due > around.now {
                true => {
                    format!("waits until {due}, for {} more, because {why}", apart(around.now, due))
                }
                false => format!("due: the next free worker has it at stage {stage} again"),
            };
            ("waiting_for_retry", Some(due), because + &obstacle(sample, around))
        }
        SampleState::Running => ("running", sample.lease_until, held(sample, around)),
        SampleState::Succeeded => {
            let run = sample.run;
            let because = format!("done: `redrive pipeline output {run}` has it");
            ("succeeded", None, because)
        }
        SampleState::Skipped => {
            let why = sample.skip_reason.as_deref().unwrap_or("no reason was given");
            ("skipped", None, format!("done: stage {stage} passed it over: {why}"))
        }
        SampleState::Dead => ("dlq", None, dead(sample, last_rule)),
    };
    Next::new(state, at, because)
}

fn dead(sample: &SampleRecord, last_rule: Option<&str>) -> String {
    let id = sample.id;
    match last_rule.filter(|_| sample.data.is_some()) {
        Some(rule) => format!(
            "nothing: it is a dead letter ({rule}); `redrive dlq reprocess {id}` would bring it back"
        ),
        None => {
            "nothing: its line in the source was no sample, and cannot be brought back".to_owned()
        }
    }
}

fn held(sample: &SampleRecord, around: &Surroundings<'_>) -> String {
    let (stage, attempt) = (&sample.stage_name, sample.attempts.saturating_add(1));
    let owner = sample.lease_owner.as_ref().map_or("a worker", |owner| owner.0.as_str());
    match sample.lease_until {
        Some(until) if until <= around.lease_now => {
            format!(
                "{owner} was lost; a worker will decide about attempt {attempt} at stage {stage}"
            )
        }
        Some(until) => {
            let rest = apart(around.lease_now, until);
            format!(
                "attempt {attempt} at stage {stage} is under way, held by {owner} for {rest} more \
                 unless renewed"
            )
        }
        None => format!("attempt {attempt} at stage {stage} is under way, held by {owner}"),
    }
}

/// What keeps a sample from being taken.
fn obstacle(sample: &SampleRecord, around: &Surroundings<'_>) -> String {
    let (id, status) = (around.run.id, around.run.progress.status);
    if status != PipelineStatus::Running {
        return format!(
            "; but run {id} is {status}: `redrive pipeline resume {id}` goes on with it"
        );
    }
    let Some(config) = &around.desk.config else { return String::new() };
    let Some(declared) = config.pipeline(&sample.pipeline) else {
        return format!("; but the configuration declares no pipeline {:?}", sample.pipeline);
    };
    let declared = declared.stages.iter().map(|stage| &stage.name);
    if declared.eq(&around.run.stages) {
        return String::new();
    }
    "; but its pipeline has other stages now than its run began with".to_owned()
}
