//! Operator actions on pipeline runs and dead letters, implemented once for every database.

use redrive_core::{
    PipelineEvent, PipelineProgress, PipelineRules, PipelineRunId, PipelineStatus, SampleEvent,
    SampleState,
};
use serde_json::json;

use crate::{
    DataEdit, JournalEntry, Operator, PipelineRunRecord, PipelineWrite, SampleRecord,
    pipeline_entry, sample_unit,
};

#[derive(Debug, Clone, PartialEq)]
pub enum PipelineAction {
    /// Stop the run: no further claims and no further reads of the source.
    Cancel,
    /// Continue the run with these rules.
    Resume(PipelineRules),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PipelineChange {
    /// The action was applied; the run had this status before.
    Done(PipelineStatus),
    /// The status does not allow the action; nothing changed.
    Refused(PipelineStatus),
    Unknown,
}

/// The result of reprocessing a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleChange {
    Done,
    /// The state does not allow it; nothing changed.
    Refused(SampleState),
    /// The line of the source was not a valid sample, so there is no data; nothing changed.
    NoData,
    Unknown,
}

impl PipelineAction {
    /// The writes for the action; `None` if the status does not allow the action.
    pub fn write(&self, run: &PipelineRunRecord, by: &Operator) -> Option<PipelineWrite> {
        let before = run.progress.status;
        let details = json!({ "before": before.name(), "reason": by.reason });
        let entry = |action| pipeline_entry(run.id, action, &details, by.at, &by.actor);
        match self {
            Self::Cancel => {
                let status = before.apply(PipelineEvent::Cancel).ok()?;
                Some(PipelineWrite {
                    progress: PipelineProgress { status, ..run.progress },
                    ended_at: Some(by.at),
                    stop_reason: Some(match &by.reason {
                        Some(reason) => format!("cancelled by {}: {reason}", by.actor),
                        None => format!("cancelled by {}", by.actor),
                    }),
                    journal: vec![entry("pipeline.cancel")],
                })
            }
            Self::Resume(rules) => {
                before.apply(PipelineEvent::Resume).ok()?;
                let mut progress = run.progress;
                let steps: Vec<_> = progress.resume(rules).into_iter().collect();
                let mut write =
                    PipelineWrite::after_steps(run.id, progress, rules, &steps, by.at, &by.actor);
                write.journal.insert(0, entry("pipeline.resume"));
                Some(write)
            }
        }
    }

    /// The rules of the run after the action.
    pub fn rules<'a>(&'a self, run: &'a PipelineRunRecord) -> &'a PipelineRules {
        match self {
            Self::Cancel => &run.rules,
            Self::Resume(rules) => rules,
        }
    }
}

impl SampleChange {
    pub fn of_reprocess(sample: &SampleRecord) -> Self {
        match sample.state().apply(SampleEvent::Reprocess) {
            Ok(_) if sample.data.is_none() => Self::NoData,
            Ok(_) => Self::Done,
            Err(_) => Self::Refused(sample.state()),
        }
    }

    pub fn of_reread(sample: &SampleRecord, edit: &DataEdit) -> Self {
        match sample.state().apply(SampleEvent::Reprocess) {
            Ok(_) if sample.data == edit.old => Self::Done,
            _ => Self::Refused(sample.state()),
        }
    }
}

pub fn reprocess_entry(sample: &SampleRecord, by: &Operator) -> JournalEntry {
    JournalEntry {
        at: by.at,
        actor: by.actor.clone(),
        action: "sample.reprocess".to_owned(),
        unit: Some(sample_unit(sample.id, &sample.stage_name)),
        filter: None,
        details: json!({ "attempts": sample.attempts, "reason": by.reason }).to_string(),
        dedupe_key: None,
    }
}

/// The progress of a run after dead letters were taken back.
pub fn reopened(before: PipelineProgress, dead_letters: u64) -> PipelineProgress {
    let mut progress = before;
    (0..dead_letters).for_each(|_| progress.reprocess());
    progress
}

pub fn start_entry(id: PipelineRunId, pipeline: &str, by: &Operator) -> JournalEntry {
    let details = json!({ "pipeline": pipeline, "reason": by.reason });
    pipeline_entry(id, "pipeline.start", &details, by.at, &by.actor)
}
