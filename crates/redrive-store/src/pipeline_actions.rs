//! What an operator may do to pipeline runs and dead letters, worked out once for every database.

use redrive_core::{
    PipelineEvent, PipelineProgress, PipelineRules, PipelineRunId, PipelineStatus, SampleEvent,
    SampleState,
};
use serde_json::json;

use crate::{
    JournalEntry, Operator, PipelineRunRecord, PipelineWrite, SampleRecord, pipeline_entry,
    sample_unit,
};

/// What an operator may wish of a pipeline run.
#[derive(Debug, Clone, PartialEq)]
pub enum PipelineAction {
    /// That it stops: nothing more is claimed or read.
    Cancel,
    /// That it goes on, judged by these rules from now on.
    Resume(PipelineRules),
}

/// What became of a wish for a pipeline run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PipelineChange {
    /// It was done, and the run was in this status before.
    Done(PipelineStatus),
    /// The run is in a status that does not allow it; nothing was changed.
    Refused(PipelineStatus),
    /// There is no such run.
    Unknown,
}

/// What became of the wish to bring a dead letter back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleChange {
    /// It is back.
    Done,
    /// It is in a state that does not allow it; nothing was changed.
    Refused(SampleState),
    /// Its line in the source was no sample; nothing was changed.
    NoData,
    /// There is no such sample.
    Unknown,
}

impl PipelineAction {
    /// What a wish does to a run; none if its status does not allow it.
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

    /// The rules of the run from here on.
    pub fn rules<'a>(&'a self, run: &'a PipelineRunRecord) -> &'a PipelineRules {
        match self {
            Self::Cancel => &run.rules,
            Self::Resume(rules) => rules,
        }
    }
}

impl SampleChange {
    /// What becomes of the wish to bring a sample back.
    pub fn of_reprocess(sample: &SampleRecord) -> Self {
        match sample.state().apply(SampleEvent::Reprocess) {
            Ok(_) if sample.data.is_none() => Self::NoData,
            Ok(_) => Self::Done,
            Err(_) => Self::Refused(sample.state()),
        }
    }
}

/// What the journal says of a dead letter that was brought back.
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

/// A run from which dead letters were brought back.
pub fn reopened(before: PipelineProgress, dead_letters: u64) -> PipelineProgress {
    let mut progress = before;
    (0..dead_letters).for_each(|_| progress.reprocess());
    progress
}

/// What the journal says of a run that begins.
pub fn start_entry(id: PipelineRunId, pipeline: &str, by: &Operator) -> JournalEntry {
    let details = json!({ "pipeline": pipeline, "reason": by.reason });
    pipeline_entry(id, "pipeline.start", &details, by.at, &by.actor)
}
