//! Explains a sample at all stages.

use jiff::Timestamp;
use redrive_core::{
    AttemptNumber, PipelineStatus, Policy, SampleId, SampleState, SampleStatus, Unit,
};
use redrive_store::{
    AttemptOutcome, JournalRecord, MAX_PAGE, PipelineRunRecord, Result, SOURCE_STAGE, SampleRecord,
    UnitKind, UnitRow,
};
use serde::Serialize;

use super::{
    Next,
    journal::read_journal,
    rule::UnitPolicy,
    run::{Actions, explain_attempts},
};
use crate::{
    Ops,
    views::{AttemptView, JournalView, SampleView},
    words::apart,
};

const ACTIONS: Actions = Actions { gives_up: "sample.dead", resets: "sample.reprocess" };

/// The explanation of a sample.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SampleExplanation {
    /// The unit, as `sample:ID/STAGE`.
    pub unit: String,
    pub sample: SampleView,
    /// The status of the pipeline run.
    pub run_status: &'static str,
    pub stages: Vec<StageExplanation>,
    pub journal: Vec<JournalView>,
    pub next: Next,
}

/// The attempts at one stage.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StageExplanation {
    pub stage: String,
    /// Each attempt with the rule behind the decision.
    pub attempts: Vec<AttemptView>,
    /// `done`, `skipped`, `dead`, `current` or `not reached`.
    pub outcome: &'static str,
    #[serde(skip)]
    journal: Vec<JournalRecord>,
}

impl SampleExplanation {
    pub(super) async fn read(id: SampleId, ops: &Ops) -> Result<Option<Self>> {
        let store = ops.store();
        let Some(sample) = store.samples_by_id(&[id]).await?.pop() else { return Ok(None) };
        let Some(run) = ops.pipelines().run(sample.run).await? else { return Ok(None) };
        // A line that was not a sample failed at the source, and may have been repaired since.
        let mut stages = vec![read_stage(SOURCE_STAGE, &sample, ops).await?];
        stages.retain(|source| sample.stage_name == SOURCE_STAGE || !source.journal.is_empty());
        for (place, stage) in (0..).zip(&run.stages) {
            let mut read = read_stage(stage, &sample, ops).await?;
            // A sample that was read again may have been at later stages before.
            if place > sample.stage {
                read.outcome = "not reached";
            }
            stages.push(read);
        }
        let context = SampleContext { run: &run, ops, now: ops.now(), lease_now: store.now() };
        let here = stages.iter().find(|stage| stage.stage == sample.stage_name);
        let last = here.and_then(|stage| stage.attempts.last());
        let last_rule = last.and_then(|attempt| attempt.rule.as_deref());
        let mut next = next(&sample, last_rule, &context);
        if matches!(sample.state(), SampleState::Ready | SampleState::WaitingForRetry)
            && let Some(gate) = ops.gate_before_sample(&sample).await?
        {
            next.because = format!("{}; but {gate}", next.because);
        }
        let mut explanation = Self {
            unit: Unit::Sample { id, stage: sample.stage_name.clone() }.to_string(),
            sample: sample.into(),
            run_status: run.progress.status.name(),
            stages,
            journal: Vec::new(),
            next,
        };
        explanation.gather_journal();
        Ok(Some(explanation))
    }

    /// Keeps one stage; `None` when the sample has no such stage.
    pub fn only(mut self, stage: &str) -> Option<Self> {
        self.stages.retain(|known| known.stage == stage);
        self.gather_journal();
        (!self.stages.is_empty()).then_some(self)
    }

    fn gather_journal(&mut self) {
        let entries = self.stages.iter().flat_map(|stage| stage.journal.iter().cloned());
        self.journal = entries.map(JournalView::from).collect();
        self.journal.sort_by_key(|row| row.id);
    }
}

async fn read_stage(stage: &str, sample: &SampleRecord, ops: &Ops) -> Result<StageExplanation> {
    let unit = Unit::Sample { id: sample.id, stage: stage.to_owned() };
    let row = UnitRow { kind: UnitKind::Sample, id: sample.id.0, stage: stage.to_owned() };
    let attempts = ops.store().attempts_of(&row, AttemptNumber(0), MAX_PAGE).await?;
    let journal = read_journal(&unit.to_string(), &**ops.store()).await?;
    let unit_policy = UnitPolicy::new(policy(stage, sample, ops), ops.jitter_seed(), &unit);
    let here = sample.stage_name == stage;
    let reset = if here { sample.attempts_at_reset } else { 0 };
    let outcome = match attempts.last().map(|last| last.outcome) {
        _ if here && sample.status == SampleStatus::Pending => "current",
        Some(AttemptOutcome::Success) => "done",
        Some(AttemptOutcome::Skipped) => "skipped",
        Some(AttemptOutcome::Failed) if sample.state() == SampleState::Dead => "dead",
        None if stage == SOURCE_STAGE && !here => "done",
        None if here && sample.state() == SampleState::Dead => "dead",
        _ => "not reached",
    };
    Ok(StageExplanation {
        stage: stage.to_owned(),
        attempts: explain_attempts(&attempts, reset, &journal, ACTIONS, &unit_policy),
        outcome,
        journal,
    })
}

/// The current policy of a stage.
fn policy(stage: &str, sample: &SampleRecord, ops: &Ops) -> Option<Policy> {
    let pipeline = ops.declared()?.pipeline(&sample.pipeline)?;
    let (_, policy) = pipeline.stages.iter().find(|(name, _)| name == stage)?;
    Some(policy.clone())
}

struct SampleContext<'a> {
    run: &'a PipelineRunRecord,
    ops: &'a Ops,
    /// On the wall clock.
    now: Timestamp,
    /// On the lease clock.
    lease_now: Timestamp,
}

fn next(sample: &SampleRecord, last_rule: Option<&str>, context: &SampleContext<'_>) -> Next {
    let stage = &sample.stage_name;
    let (state, at, because) = match sample.state() {
        SampleState::Ready => {
            let because = format!("ready: the next free worker claims the sample at stage {stage}");
            ("ready", None, because + &obstacle(sample, context))
        }
        SampleState::WaitingForRetry => {
            let due = sample.next_retry_at.unwrap_or(context.now);
            let why = last_rule.unwrap_or("the last attempt failed");
            let because = match due > context.now {
                true => {
                    format!(
                        "waits until {due}, for {} more, because {why}",
                        apart(context.now, due)
                    )
                }
                false => {
                    format!("due now: the next free worker claims the sample at stage {stage}")
                }
            };
            ("waiting_for_retry", Some(due), because + &obstacle(sample, context))
        }
        SampleState::Running => ("running", sample.lease_until, held(sample, context)),
        SampleState::Succeeded => {
            let run = sample.run;
            let because = format!("done: `redrive pipeline output {run}` prints the sample");
            ("succeeded", None, because)
        }
        SampleState::Skipped => {
            let why = sample.skip_reason.as_deref().unwrap_or("no reason given");
            ("skipped", None, format!("done: stage {stage} skipped the sample: {why}"))
        }
        SampleState::Dead => ("dlq", None, dead(sample, last_rule)),
    };
    Next::new(state, at, because)
}

fn dead(sample: &SampleRecord, last_rule: Option<&str>) -> String {
    let id = sample.id;
    match last_rule {
        Some(rule) => format!(
            "nothing: the sample is a dead letter ({rule}); `redrive dlq reprocess {id}` retries the sample"
        ),
        None if sample.data.is_some() => format!(
            "nothing: the line in the source was not a sample and has data now; `redrive dlq reprocess {id}` tries it"
        ),
        None => format!(
            "nothing: the line in the source is not a sample; `redrive dlq edit {id}` gives it data"
        ),
    }
}

fn held(sample: &SampleRecord, context: &SampleContext<'_>) -> String {
    let (stage, attempt) = (&sample.stage_name, sample.attempts.saturating_add(1));
    let owner = sample.lease_owner.as_ref().map_or("a worker", |owner| owner.0.as_str());
    match sample.lease_until {
        Some(until) if until <= context.lease_now => {
            format!(
                "the lease of {owner} has expired; a worker decides about attempt {attempt} at stage {stage}"
            )
        }
        Some(until) => {
            let rest = apart(context.lease_now, until);
            format!(
                "attempt {attempt} at stage {stage} is under way, held by {owner} for {rest} more \
                 unless renewed"
            )
        }
        None => format!("attempt {attempt} at stage {stage} is under way, held by {owner}"),
    }
}

/// The reason why workers cannot claim a sample.
fn obstacle(sample: &SampleRecord, context: &SampleContext<'_>) -> String {
    let (id, status) = (context.run.id, context.run.progress.status);
    if status != PipelineStatus::Running {
        return format!(
            "; but run {id} is {status}: `redrive pipeline resume {id}` resumes the run"
        );
    }
    let Some(declared) = context.ops.declared() else { return String::new() };
    let Some(declared) = declared.pipeline(&sample.pipeline) else {
        return format!("; but the configuration declares no pipeline {:?}", sample.pipeline);
    };
    let declared = declared.stages.iter().map(|(name, _)| name);
    if declared.eq(&context.run.stages) {
        return String::new();
    }
    "; but the stages of the pipeline have changed since the run started".to_owned()
}
