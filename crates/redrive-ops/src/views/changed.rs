//! The outcome of an operator's action for each unit.

use redrive_core::{ItemId, PartitionState, RunId, RunState, SampleId, TerminalReason};
use redrive_engine::{ChangeOutcome, ChangeRefusal, PartitionOutcome, RunMode};
use redrive_store::{ItemRecord, RunChange, SampleChange, SampleRecord};
use serde::Serialize;

use crate::ItemAction;

fn done(mode: RunMode) -> &'static str {
    match mode {
        RunMode::Real => "done",
        RunMode::DryRun => "would_be_done",
    }
}

/// The outcome of an action for a run.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunChangeView {
    pub id: i64,
    /// `done`, `would_be_done`, `refused` or `unknown`.
    pub outcome: &'static str,
    /// The state before the action.
    pub before: Option<&'static str>,
    /// The outcome in words.
    #[serde(skip)]
    pub note: String,
}

impl RunChangeView {
    /// The store's answer, or the expected answer for a dry run.
    pub fn new(id: RunId, change: RunChange, mode: RunMode) -> Self {
        let (outcome, before, note) = match change {
            RunChange::Done(before) => (done(mode), Some(before), format!("was {}", before.name())),
            RunChange::Refused(before) => {
                ("refused", Some(before), format!("the run is {}", before.name()))
            }
            RunChange::Unknown => ("unknown", None, "there is no such run".to_owned()),
        };
        Self { id: id.0, outcome, before: before.map(run_state_name), note }
    }
}

/// The state name in JSON: the status, or for `error` either `waiting_for_retry` or `given_up`.
pub fn run_state_name(state: RunState) -> &'static str {
    match state {
        RunState::WaitingForRetry => "waiting_for_retry",
        RunState::GivenUp => "given_up",
        state => state.status().name(),
    }
}

/// The outcome of an action for a partition.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PartitionChangeView {
    pub source: String,
    pub customer_id: String,
    pub query_name: String,
    /// The day of the data, as YYYY-MM-DD.
    pub logical_date: String,
    /// `done`, `would_be_done`, `already` or `refused`.
    pub outcome: &'static str,
    /// The state before the action.
    pub before: &'static str,
    /// The reason for a refusal.
    pub why: Option<String>,
    /// The outcome in words.
    #[serde(skip)]
    pub note: String,
}

impl PartitionChangeView {
    /// The control plane's answer, or the expected answer for a dry run.
    pub fn new(outcome: PartitionOutcome, mode: RunMode) -> Self {
        let PartitionOutcome { key, change, .. } = outcome;
        let (outcome, before, why, note) = match change {
            ChangeOutcome::Done(before) => {
                (done(mode), before, None, format!("was {}", before.name()))
            }
            ChangeOutcome::Already(state) => {
                ("already", state, None, format!("the partition is {}", state.name()))
            }
            ChangeOutcome::Refused(refusal) => {
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

fn state_of(refusal: &ChangeRefusal) -> PartitionState {
    match refusal {
        ChangeRefusal::State(state) | ChangeRefusal::Moved(state) => *state,
        ChangeRefusal::Terminal(TerminalReason::Marked) => PartitionState::Terminal,
        ChangeRefusal::Terminal(TerminalReason::Policy(_)) => PartitionState::Failed,
        ChangeRefusal::NoRaw(state) | ChangeRefusal::RawUnavailable { state, .. } => *state,
        ChangeRefusal::NoEntry => PartitionState::Absent,
    }
}

/// The state name in JSON.
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

/// The outcome of an action for a dead letter.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SampleChangeView {
    pub id: i64,
    /// The pipeline run.
    pub run_id: Option<i64>,
    pub pipeline: Option<String>,
    /// The stage of the last failure.
    pub stage: Option<String>,
    /// `done`, `would_be_done`, `refused` or `unknown`.
    pub outcome: &'static str,
    /// The reason for a refusal.
    pub why: Option<String>,
}

impl SampleChangeView {
    /// The store's answer, or the expected answer for a dry run.
    pub fn new(
        id: SampleId,
        sample: Option<&SampleRecord>,
        change: SampleChange,
        mode: RunMode,
    ) -> Self {
        let error = sample.and_then(|sample| sample.error_message.as_deref()).unwrap_or_default();
        let (outcome, why) = match change {
            SampleChange::Done => (done(mode), None),
            SampleChange::Refused(state) => {
                ("refused", Some(format!("the sample is {}", state.name())))
            }
            SampleChange::NoData => {
                ("refused", Some(format!("the sample has no data to reprocess: {error}")))
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

/// The outcome of an action for an item.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ItemChangeView {
    pub id: i64,
    /// Unique within the group.
    pub name: Option<String>,
    /// `done`, `would_be_done`, `refused` or `unknown`.
    pub outcome: &'static str,
    /// The attempts so far, or the reason for a refusal.
    pub detail: String,
}

impl ItemChangeView {
    pub(crate) fn done(item: &ItemRecord, action: ItemAction, mode: RunMode) -> Self {
        let detail = match action {
            ItemAction::Reset | ItemAction::Drop => {
                format!("after {} attempts", item.upload_attempts)
            }
            ItemAction::Trust => "trusted".to_owned(),
            ItemAction::Refuse => "rejected".to_owned(),
        };
        Self { id: item.id.0, name: Some(item.name.clone()), outcome: done(mode), detail }
    }

    pub(crate) fn refused(item: &ItemRecord, detail: String) -> Self {
        Self { id: item.id.0, name: Some(item.name.clone()), outcome: "refused", detail }
    }

    pub(crate) fn unknown(id: ItemId) -> Self {
        let detail = "there is no such item".to_owned();
        Self { id: id.0, name: None, outcome: "unknown", detail }
    }

    pub fn is_done(&self) -> bool {
        matches!(self.outcome, "done" | "would_be_done")
    }
}
