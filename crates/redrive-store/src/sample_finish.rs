//! What a finished attempt at a sample writes, worked out once for every database.

use std::collections::BTreeMap;

use jiff::Timestamp;
use redrive_core::{
    Cause, Decision, Failure, Fingerprint, Message, PipelineProgress, PipelineRules, PipelineRunId,
    PipelineStatus, PipelineStep, SampleEvent, SampleId, SampleOutcome, SampleState, SampleStatus,
    Unit,
};
use serde_json::{Value, json};

use crate::{
    AttemptOutcome, AttemptRecord, JournalEntry, PipelineRunRecord, SampleCompletion, SampleFinish,
    UnitKind, UnitRow, WorkerId,
};

/// The stage that a line of the source died at, before any stage had it.
pub const SOURCE_STAGE: &str = "source";

/// The columns of a sample after an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleColumns<'a> {
    /// The new status.
    pub status: SampleStatus,
    /// The place of its stage: the next one if this one answered and is not the last.
    pub stage: u32,
    /// What it is from here on; as it was if none.
    pub data: Option<&'a str>,
    /// Executions at its stage.
    pub attempts: u32,
    /// Counted retries at its stage.
    pub retry_count: u32,
    /// Waits for a server's hint in a row.
    pub deferrals: u32,
    /// When it is tried again.
    pub next_retry_at: Option<Timestamp>,
    /// When the first attempt at its stage began.
    pub first_attempt_at: Option<Timestamp>,
    /// When the last attempt at its stage ended.
    pub last_attempt_at: Option<Timestamp>,
    /// The class of the error.
    pub error_class: Option<&'static str>,
    /// Its code.
    pub error_code: Option<String>,
    /// Its message.
    pub error_message: Option<&'a str>,
    /// What groups it with failures like it.
    pub fingerprint: Option<String>,
    /// Why it was passed over.
    pub skip_reason: Option<Message>,
}

impl SampleFinish {
    /// What happened, as the state machine calls it.
    pub fn event(&self) -> SampleEvent {
        match &self.completion {
            SampleCompletion::Answered(_) if self.last_stage => SampleEvent::Complete,
            SampleCompletion::Answered(_) => SampleEvent::Advance,
            SampleCompletion::Skipped(_) => SampleEvent::Skip,
            SampleCompletion::Failed { decision: Decision::RetryAt { .. }, .. } => {
                SampleEvent::ScheduleRetry
            }
            SampleCompletion::Failed { decision: Decision::GiveUp { .. }, .. } => {
                SampleEvent::GiveUp
            }
        }
    }

    /// Whether there is something to claim from here on, now or later.
    pub fn leaves_work(&self) -> bool {
        matches!(self.event(), SampleEvent::Advance | SampleEvent::ScheduleRetry)
    }

    /// Who keeps the sample for its next stage, and until when. Nobody, if there is none.
    pub fn keeper(&self) -> Option<(&WorkerId, Timestamp)> {
        let goes_on = self.event() == SampleEvent::Advance;
        self.keep_until.filter(|_| goes_on).map(|until| (&self.worker, until))
    }

    /// How the sample ended, if it did.
    pub fn end(&self) -> Option<SampleOutcome<'static>> {
        match &self.completion {
            SampleCompletion::Skipped(_) => Some(SampleOutcome::Skipped),
            SampleCompletion::Answered(_) => self.last_stage.then_some(SampleOutcome::Succeeded),
            SampleCompletion::Failed { failure, decision: Decision::GiveUp { .. } } => {
                Some(SampleOutcome::Dead(failure.class().name()))
            }
            SampleCompletion::Failed { .. } => None,
        }
    }

    /// The columns of the sample.
    pub fn columns(&self) -> SampleColumns<'_> {
        let event = self.event();
        let after = SampleState::Running.apply(event).unwrap_or(SampleState::Running);
        let advanced = event == SampleEvent::Advance;
        let first_attempt_at = self.history.first_attempt_at.unwrap_or(self.started_at);
        let columns = SampleColumns {
            status: after.status(),
            stage: if advanced { self.stage + 1 } else { self.stage },
            data: None,
            // A stage begins with nothing.
            attempts: if advanced { 0 } else { self.attempt.0 },
            retry_count: 0,
            deferrals: 0,
            next_retry_at: None,
            first_attempt_at: (!advanced).then_some(first_attempt_at),
            last_attempt_at: (!advanced).then_some(self.ended_at),
            error_class: None,
            error_code: None,
            error_message: None,
            fingerprint: None,
            skip_reason: None,
        };
        match &self.completion {
            SampleCompletion::Answered(data) => SampleColumns { data: Some(data), ..columns },
            SampleCompletion::Skipped(why) => {
                SampleColumns { skip_reason: Some(Message::clean(why)), ..columns }
            }
            SampleCompletion::Failed { failure, decision } => {
                let history = self.history.after(failure, decision);
                let (retry_count, next_retry_at) = match decision {
                    Decision::RetryAt { at, .. } => (history.counted, Some(*at)),
                    Decision::GiveUp { .. } => (self.history.counted, None),
                };
                let code = failure.code().to_string();
                let message = failure.message().as_str();
                SampleColumns {
                    retry_count,
                    deferrals: history.deferrals,
                    next_retry_at,
                    error_class: Some(failure.class().name()),
                    fingerprint: Some(Fingerprint::of(&code, message).to_string()),
                    error_code: Some(code),
                    error_message: Some(message),
                    ..columns
                }
            }
        }
    }

    /// The row of the ledger.
    pub fn ledger_row(&self) -> AttemptRecord {
        let unit =
            UnitRow { kind: UnitKind::Sample, id: self.id.0, stage: self.stage_name.clone() };
        let (started_at, ended_at) = (self.started_at, self.ended_at);
        let row = AttemptRecord {
            stage_config_hash: Some(self.stage_config_hash.clone()),
            ..AttemptRecord::success(unit, self.attempt, started_at, ended_at, &self.worker.0)
        };
        match &self.completion {
            SampleCompletion::Answered(_) => row,
            SampleCompletion::Skipped(why) => AttemptRecord {
                outcome: AttemptOutcome::Skipped,
                message: Some(Message::clean(why).to_string()),
                ..row
            },
            SampleCompletion::Failed { failure, decision } => {
                row.with_failure(failure).with_decision(decision)
            }
        }
    }

    /// The rows of the journal: a death with its reason, and a worker that was lost.
    pub fn journal_rows(&self) -> Vec<JournalEntry> {
        let SampleCompletion::Failed { failure, decision } = &self.completion else {
            return Vec::new();
        };
        let entry = |action: &str, details: Value| JournalEntry {
            at: self.ended_at,
            actor: self.worker.0.clone(),
            action: action.to_owned(),
            unit: Some(sample_unit(self.id, &self.stage_name)),
            filter: None,
            details: details.to_string(),
            dedupe_key: None,
        };
        let mut rows = Vec::new();
        if failure.cause() == Cause::LostWorker {
            let details = json!({ "attempt": self.attempt.0, "epoch": self.epoch.0 });
            rows.push(entry("sample.lease_lost", details));
        }
        if let Decision::GiveUp { reason } = decision {
            let details = json!({
                "reason": reason.name(), "attempts": self.attempt.0, "pipeline_run": self.run.0,
            });
            rows.push(entry("sample.dead", details));
        }
        rows
    }
}

/// A sample at a stage, as the journal names it.
pub fn sample_unit(id: SampleId, stage: &str) -> String {
    Unit::Sample { id, stage: stage.to_owned() }.to_string()
}

/// The name of a stage, or of the source for a line that was no sample.
pub fn stage_or_source(stage: Option<String>, data: Option<&str>) -> String {
    match data {
        Some(_) => stage.unwrap_or_default(),
        None => SOURCE_STAGE.to_owned(),
    }
}

/// What the journal says of a line that was no sample.
pub fn source_death_entry(
    run: PipelineRunId,
    id: SampleId,
    failure: &Failure,
    at: Timestamp,
    actor: &str,
) -> JournalEntry {
    JournalEntry {
        at,
        actor: actor.to_owned(),
        action: "sample.dead".to_owned(),
        unit: Some(sample_unit(id, SOURCE_STAGE)),
        filter: None,
        details: json!({
            "reason": failure.code().to_string(), "attempts": 0, "pipeline_run": run.0,
        })
        .to_string(),
        dedupe_key: None,
    }
}

/// The samples of a run that ended: how, when the last of them did, and by whose hand.
pub type RunOutcomes = (Vec<SampleOutcome<'static>>, Timestamp, String);

/// What the ends of samples do to the runs they belong to: gathered per run while samples are
/// written, applied once per run at the end of the transaction.
#[derive(Debug, Default)]
pub struct OutcomesByRun(BTreeMap<PipelineRunId, RunOutcomes>);

impl OutcomesByRun {
    /// Notes a finish that was applied.
    pub fn add(&mut self, finish: &SampleFinish) {
        let Some(end) = finish.end() else { return };
        let (ends, at, _) = self
            .0
            .entry(finish.run)
            .or_insert_with(|| (Vec::new(), finish.ended_at, finish.worker.0.clone()));
        ends.push(end);
        *at = finish.ended_at.max(*at);
    }

    /// The runs, in the order of their ids, with the ends of their samples.
    pub fn into_runs(self) -> impl Iterator<Item = (PipelineRunId, RunOutcomes)> {
        self.0.into_iter()
    }
}

/// What becomes of the row of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct PipelineWrite {
    /// How it stands from here on.
    pub progress: PipelineProgress,
    /// When it ended or was stopped; none if it goes on.
    pub ended_at: Option<Timestamp>,
    /// Why it was stopped.
    pub stop_reason: Option<String>,
    /// What the journal says of it.
    pub journal: Vec<JournalEntry>,
}

impl PipelineWrite {
    /// With no more than this.
    pub fn of_progress(progress: PipelineProgress) -> Self {
        Self { progress, ended_at: None, stop_reason: None, journal: Vec::new() }
    }

    /// After so many samples were read, some of which died at once.
    pub fn after_reading(
        run: &PipelineRunRecord,
        samples: u64,
        done: bool,
        deaths: &[SampleOutcome<'_>],
        at: Timestamp,
        actor: &str,
    ) -> Self {
        let mut progress = run.progress;
        // Not yet done, so that the budget is looked at while work remains.
        let read = progress.read(&run.rules, samples, false);
        let died = deaths.iter().filter_map(|end| progress.end(&run.rules, *end));
        let mut steps: Vec<_> = read.into_iter().chain(died).collect();
        steps.extend(progress.read(&run.rules, 0, done));
        Self::after_steps(run.id, progress, &run.rules, &steps, at, actor)
    }

    /// After samples ended.
    pub fn after_ends(
        id: PipelineRunId,
        before: PipelineProgress,
        rules: &PipelineRules,
        ends: &[SampleOutcome<'_>],
        at: Timestamp,
        actor: &str,
    ) -> Self {
        let mut progress = before;
        let steps: Vec<_> = ends.iter().filter_map(|end| progress.end(rules, *end)).collect();
        Self::after_steps(id, progress, rules, &steps, at, actor)
    }

    /// After steps that a run took. The last one stands: a run that was stopped is not over.
    pub fn after_steps(
        id: PipelineRunId,
        progress: PipelineProgress,
        rules: &PipelineRules,
        steps: &[PipelineStep],
        at: Timestamp,
        actor: &str,
    ) -> Self {
        let mut write = Self::of_progress(progress);
        for step in steps {
            write.ended_at = Some(at);
            let (action, details) = match step {
                PipelineStep::Concluded(status) => {
                    ("pipeline.end", conclusion(*status, &progress, rules))
                }
                PipelineStep::Aborted(exceeded) => {
                    write.stop_reason = Some(exceeded.to_string());
                    (
                        "pipeline.abort",
                        json!({
                            "why": exceeded.to_string(),
                            "rate": exceeded.rate,
                            "budget": exceeded.budget,
                            "processed": exceeded.processed,
                            "failed": exceeded.failed,
                        }),
                    )
                }
            };
            write.journal.push(pipeline_entry(id, action, &details, at, actor));
        }
        write
    }

    /// After its source could not be read any further.
    pub fn after_source_failure(
        id: PipelineRunId,
        before: PipelineProgress,
        failure: &Failure,
        at: Timestamp,
        actor: &str,
    ) -> Self {
        let stopped = before.status.apply(redrive_core::PipelineEvent::Abort);
        let why = format!("the source cannot be read: {}", failure.message());
        let details = json!({ "why": why, "code": failure.code().to_string() });
        match stopped {
            Ok(status) => Self {
                progress: PipelineProgress { status, ..before },
                ended_at: Some(at),
                stop_reason: Some(why),
                journal: vec![pipeline_entry(id, "pipeline.abort", &details, at, actor)],
            },
            Err(_) => {
                Self { progress: before, ended_at: None, stop_reason: None, journal: Vec::new() }
            }
        }
    }
}

fn conclusion(status: PipelineStatus, progress: &PipelineProgress, rules: &PipelineRules) -> Value {
    let counts = progress.counts;
    json!({
        "status": status.name(),
        "total": counts.total,
        "succeeded": counts.succeeded,
        "skipped": counts.skipped,
        "dlq": counts.dlq,
        "budget_exceeded": rules.budget.exceeded(progress.budget).is_some(),
    })
}

/// What the journal says of a run as a whole, which is no unit.
pub fn pipeline_entry(
    id: PipelineRunId,
    action: &str,
    details: &Value,
    at: Timestamp,
    actor: &str,
) -> JournalEntry {
    JournalEntry {
        at,
        actor: actor.to_owned(),
        action: action.to_owned(),
        unit: None,
        filter: Some(json!({ "pipeline_run": id.0 }).to_string()),
        details: details.to_string(),
        dedupe_key: None,
    }
}
