//! The columns that a finished sample attempt writes, computed once for every database.

use std::collections::BTreeMap;

use jiff::Timestamp;
use redrive_core::{
    Cause, Decision, Failure, History, Message, PipelineProgress, PipelineRules, PipelineRunId,
    PipelineStatus, PipelineStep, SampleEvent, SampleId, SampleOutcome, SampleState, SampleStatus,
    Unit,
};
use serde_json::{Value, json};

use crate::{
    AttemptEnd, AttemptOutcome, AttemptRecord, JournalEntry, LeaseRef, PipelineRunRecord,
    SampleCompletion, SampleFinish, UnitKind, UnitRow, WorkerId,
};

/// The stage name of a source line that failed before the first stage.
pub const SOURCE_STAGE: &str = "source";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleColumns<'a> {
    pub status: SampleStatus,
    /// The index of the stage: the next stage if this one answered and is not the last.
    pub stage: u32,
    /// The new data; `None` keeps the old data.
    pub data: Option<&'a str>,
    /// Attempts at the stage.
    pub attempts: u32,
    pub retry_count: u32,
    /// Waits for a server's hint in a row.
    pub deferrals: u32,
    pub next_retry_at: Option<Timestamp>,
    pub first_attempt_at: Option<Timestamp>,
    pub last_attempt_at: Option<Timestamp>,
    pub error_class: Option<&'static str>,
    pub error_code: Option<String>,
    pub error_message: Option<&'a str>,
    pub fingerprint: Option<String>,
    pub skip_reason: Option<Message>,
}

impl SampleFinish {
    pub fn lease(&self) -> LeaseRef {
        LeaseRef { id: self.id.0, epoch: self.epoch }
    }

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

    /// Whether the stage answered at the first attempt: the sample leaves the stage without history.
    pub fn passes_at_once(&self) -> bool {
        matches!(self.completion, SampleCompletion::Answered(_))
            && self.attempt.0 == 1
            && self.history == History::default()
    }

    /// Whether the sample can be claimed again, now or later.
    pub fn leaves_work(&self) -> bool {
        matches!(self.event(), SampleEvent::Advance | SampleEvent::ScheduleRetry)
    }

    /// The worker that keeps the sample for its next stage, and until when. After a reset the sample may have been at the
    /// next stage before: only the store knows the number of its next attempt there.
    pub fn keeper(&self) -> Option<(&WorkerId, Timestamp)> {
        let goes_on = self.event() == SampleEvent::Advance;
        let never_reset = self.attempt.0 <= self.history.counted.saturating_add(1);
        self.keep_until.filter(|_| goes_on && never_reset).map(|until| (&self.worker, until))
    }

    /// The outcome of the sample; `None` if the sample continues.
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

    pub fn columns(&self) -> SampleColumns<'_> {
        let event = self.event();
        let after = SampleState::Running.apply(event).unwrap_or(SampleState::Running);
        let advanced = event == SampleEvent::Advance;
        let first_attempt_at = self.history.first_attempt_at.unwrap_or(self.started_at);
        let columns = SampleColumns {
            status: after.status(),
            stage: if advanced { self.stage + 1 } else { self.stage },
            data: None,
            // A stage starts with empty counts.
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
                SampleColumns {
                    retry_count,
                    deferrals: history.deferrals,
                    next_retry_at,
                    error_class: Some(failure.class().name()),
                    fingerprint: Some(failure.fingerprint().to_string()),
                    error_code: Some(failure.code().to_string()),
                    error_message: Some(failure.message().as_str()),
                    ..columns
                }
            }
        }
    }

    pub fn attempt_end(&self) -> AttemptEnd {
        let outcome = match &self.completion {
            SampleCompletion::Answered(_) => AttemptOutcome::Success,
            SampleCompletion::Skipped(_) => AttemptOutcome::Skipped,
            SampleCompletion::Failed { decision, .. } => decision.into(),
        };
        AttemptEnd { outcome, started_at: self.started_at, ended_at: self.ended_at }
    }

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

    /// A dead letter with its reason, and a lost worker.
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

/// The name of a sample in the journal.
pub fn sample_unit(id: SampleId, stage: &str) -> String {
    Unit::Sample { id, stage: stage.to_owned() }.to_string()
}

/// The journal entry for a line that was not a valid sample.
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

/// The outcomes of samples of one run, the time of the last one, and the worker.
pub type RunOutcomes = (Vec<SampleOutcome<'static>>, Timestamp, String);

/// Outcomes of samples by pipeline run. Collected while samples are written, and applied once per
/// run at the end of the transaction.
#[derive(Debug, Default)]
pub struct OutcomesByRun(BTreeMap<PipelineRunId, RunOutcomes>);

impl OutcomesByRun {
    /// Adds the outcome of an applied finish, if any.
    pub fn add(&mut self, finish: &SampleFinish) {
        let Some(end) = finish.end() else { return };
        let (ends, at, _) = self
            .0
            .entry(finish.run)
            .or_insert_with(|| (Vec::new(), finish.ended_at, finish.worker.0.clone()));
        ends.push(end);
        *at = finish.ended_at.max(*at);
    }

    /// In the order of run ids.
    pub fn into_runs(self) -> impl Iterator<Item = (PipelineRunId, RunOutcomes)> {
        self.0.into_iter()
    }
}

/// The writes for a pipeline run.
#[derive(Debug, Clone, PartialEq)]
pub struct PipelineWrite {
    pub progress: PipelineProgress,
    /// When the run ended or was stopped; `None` if the run continues.
    pub ended_at: Option<Timestamp>,
    pub stop_reason: Option<String>,
    pub journal: Vec<JournalEntry>,
}

impl PipelineWrite {
    pub fn of_progress(progress: PipelineProgress) -> Self {
        Self { progress, ended_at: None, stop_reason: None, journal: Vec::new() }
    }

    /// After samples were read, some of which became dead letters at once.
    pub fn after_reading(
        run: &PipelineRunRecord,
        samples: u64,
        done: bool,
        deaths: &[SampleOutcome<'_>],
        at: Timestamp,
        actor: &str,
    ) -> Self {
        let mut progress = run.progress;
        // `done` follows below, so that the budget is checked while work remains.
        let read = progress.read(&run.rules, samples, false);
        let died = deaths.iter().filter_map(|end| progress.end(&run.rules, *end));
        let mut steps: Vec<_> = read.into_iter().chain(died).collect();
        steps.extend(progress.read(&run.rules, 0, done));
        Self::after_steps(run.id, progress, &run.rules, &steps, at, actor)
    }

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

    /// After steps of a run. The last step decides: a stopped run is not over.
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

/// A journal entry about a pipeline run. A pipeline run is not a unit, so the entry has a filter
/// instead.
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
