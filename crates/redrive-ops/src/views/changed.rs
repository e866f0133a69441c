//! What became of each unit that somebody wished something of.

use redrive_core::{ItemId, PartitionState, RunId, RunState, SampleId, TerminalReason};
use redrive_engine::{Fate, PartitionOutcome, Refusal, RunMode};
use redrive_store::{ItemRecord, RunChange, SampleChange, SampleRecord};
use serde::Serialize;

/// What it is called when something was done, or would be.
fn done(mode: RunMode) -> &'static str {
    match mode {
        RunMode::Real => "done",
        RunMode::DryRun => "would_be_done",
    }
}

/// A run, and what became of it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunChangeView {
    /// The run.
    pub id: i64,
    /// `done`, `would_be_done`, `refused` or `unknown`.
    pub outcome: &'static str,
    /// The state it was in before.
    pub before: Option<&'static str>,
    /// The same in words.
    #[serde(skip)]
    pub note: String,
}

impl RunChangeView {
    /// What a store answered, or would.
    pub fn new(id: RunId, change: RunChange, mode: RunMode) -> Self {
        let (outcome, before, note) = match change {
            RunChange::Done(before) => (done(mode), Some(before), format!("was {}", before.name())),
            RunChange::Refused(before) => {
                ("refused", Some(before), format!("it is {}", before.name()))
            }
            RunChange::Unknown => ("unknown", None, "there is no such run".to_owned()),
        };
        Self { id: id.0, outcome, before: before.map(run_state_name), note }
    }
}

/// A state of a run as programs read it: its status, and for `error` what it is about.
pub fn run_state_name(state: RunState) -> &'static str {
    match state {
        RunState::WaitingForRetry => "waiting_for_retry",
        RunState::GivenUp => "given_up",
        state => state.status().name(),
    }
}

/// A partition, and what became of it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PartitionChangeView {
    /// Where it comes from.
    pub source: String,
    /// Whose it is.
    pub customer_id: String,
    /// What was asked for.
    pub query_name: String,
    /// The day it holds.
    pub logical_date: String,
    /// `done`, `would_be_done`, `already` or `refused`.
    pub outcome: &'static str,
    /// The state it was in before.
    pub before: &'static str,
    /// Why it was not done.
    pub why: Option<String>,
    /// The same in words.
    #[serde(skip)]
    pub note: String,
}

impl PartitionChangeView {
    /// What the control plane answered, or would.
    pub fn new(outcome: PartitionOutcome, mode: RunMode) -> Self {
        let PartitionOutcome { key, fate, .. } = outcome;
        let (outcome, before, why, note) = match fate {
            Fate::Done(before) => (done(mode), before, None, format!("was {}", before.name())),
            Fate::Already(state) => ("already", state, None, format!("it is {}", state.name())),
            Fate::Refused(refusal) => {
                let why = refusal.to_string();
                ("refused", state_of(&refusal), Some(why.clone()), why)
            }
        };
        Self {
            source: key.source().to_owned(),
            customer_id: key.customer_id().to_owned(),
            query_name: key.query_name().to_owned(),
            logical_date: key.logical_date().to_string(),
            outcome,
            before: partition_state_name(before),
            why,
            note,
        }
    }
}

fn state_of(refusal: &Refusal) -> PartitionState {
    match refusal {
        Refusal::State(state) | Refusal::Moved(state) => *state,
        Refusal::Terminal(TerminalReason::Marked) => PartitionState::Terminal,
        Refusal::Terminal(TerminalReason::Policy(_)) => PartitionState::Failed,
        Refusal::NoRaw(state) | Refusal::RawUnknown { state, .. } => *state,
        Refusal::NoEntry => PartitionState::Absent,
    }
}

/// A state of a partition as programs read it.
pub fn partition_state_name(state: PartitionState) -> &'static str {
    match state {
        PartitionState::Absent => "no_entry",
        PartitionState::Pending => "pending",
        PartitionState::Success => "success",
        PartitionState::Reprocessing => "reprocessing",
        PartitionState::Failed => "failed",
        PartitionState::Terminal => "terminal",
    }
}

/// A dead letter, and what became of it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SampleChangeView {
    /// The sample.
    pub id: i64,
    /// The run of the pipeline it is in.
    pub run_id: Option<i64>,
    /// The pipeline.
    pub pipeline: Option<String>,
    /// The stage it died at.
    pub stage: Option<String>,
    /// `done`, `would_be_done`, `refused` or `unknown`.
    pub outcome: &'static str,
    /// Why it was not done.
    pub why: Option<String>,
}

impl SampleChangeView {
    /// What a store answered, or would.
    pub fn new(
        id: SampleId,
        sample: Option<&SampleRecord>,
        change: SampleChange,
        mode: RunMode,
    ) -> Self {
        let error = sample.and_then(|sample| sample.error_message.as_deref()).unwrap_or_default();
        let (outcome, why) = match change {
            SampleChange::Done => (done(mode), None),
            SampleChange::Refused(state) => ("refused", Some(format!("it is {}", state.name()))),
            SampleChange::NoData => {
                ("refused", Some(format!("there is nothing to go on with: {error}")))
            }
            SampleChange::Unknown => ("unknown", Some("there is no such sample".to_owned())),
        };
        Self {
            id: id.0,
            run_id: sample.map(|sample| sample.run.0),
            pipeline: sample.map(|sample| sample.pipeline.clone()),
            stage: sample.map(|sample| sample.stage_name.clone()),
            outcome,
            why,
        }
    }
}

/// An item, and what became of it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ItemChangeView {
    /// The item.
    pub id: i64,
    /// Its name in its group.
    pub name: Option<String>,
    /// `done`, `would_be_done`, `refused` or `unknown`.
    pub outcome: &'static str,
    /// After how many attempts, or why not.
    pub detail: String,
}

impl ItemChangeView {
    pub(crate) fn reset(item: &ItemRecord, mode: RunMode) -> Self {
        let detail = format!("after {} attempts", item.upload_attempts);
        Self { id: item.id.0, name: Some(item.name.clone()), outcome: done(mode), detail }
    }

    pub(crate) fn refused(item: &ItemRecord, detail: String) -> Self {
        Self { id: item.id.0, name: Some(item.name.clone()), outcome: "refused", detail }
    }

    pub(crate) fn unknown(id: ItemId) -> Self {
        let detail = "there is no such item".to_owned();
        Self { id: id.0, name: None, outcome: "unknown", detail }
    }

    /// Whether it was reset, or would be.
    pub fn is_done(&self) -> bool {
        matches!(self.outcome, "done" | "would_be_done")
    }
}
