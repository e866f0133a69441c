//! The actions of plans: which units they refuse, and what became of units that they changed.

use redrive_core::{
    ItemEvent, ItemStatus, PartitionState, PartitionStatus, RunState, RunStatus, SampleState,
    SampleStatus,
};
use serde_json::{Value, json};

use crate::{
    Lane, PartitionAction, PartitionRecord, PlanOutcome, PlanUnit, PlanUnitRecord, RunAction,
    RunRecord, SampleChange, StateFilter, UnitKind,
};

/// What a plan does to each of its units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PlanAction {
    Run(RunAction),
    ResetItem,
    Partition(PartitionAction),
    ReprocessSample,
}

impl PlanAction {
    pub fn kind(self) -> UnitKind {
        match self {
            Self::Run(_) => UnitKind::Run,
            Self::ResetItem => UnitKind::Item,
            Self::Partition(_) => UnitKind::Partition,
            Self::ReprocessSample => UnitKind::Sample,
        }
    }

    /// The action in the journal of each unit.
    pub fn name(self) -> &'static str {
        match self {
            Self::Run(action) => action.action(),
            Self::ResetItem => "upload.reset",
            Self::Partition(action) => action.action(),
            Self::ReprocessSample => "sample.reprocess",
        }
    }

    /// Whether an undo can return units. The pipeline run of a sample has counted it as open again, and may have moved on.
    pub fn can_be_undone(self) -> bool {
        self.redrives() && self != Self::ReprocessSample
    }

    /// Whether units are tried again: their outcomes are watched.
    pub fn redrives(self) -> bool {
        match self {
            Self::Run(action) => action == RunAction::Retry,
            Self::ResetItem | Self::ReprocessSample => true,
            Self::Partition(action) => {
                matches!(action, PartitionAction::Retry { .. } | PartitionAction::Reprocess { .. })
            }
        }
    }

    /// The states that the action is about, if a selection names none.
    pub fn states(self) -> Vec<StateFilter> {
        match self {
            Self::Run(RunAction::Retry) => vec![RunState::GivenUp.into()],
            Self::Run(RunAction::Cancel) => {
                let open = [RunStatus::Discovered, RunStatus::Processing, RunStatus::Error];
                open.map(StateFilter::from).to_vec()
            }
            Self::ResetItem => vec![ItemStatus::UploadGiveup.into()],
            Self::Partition(PartitionAction::Reprocess { .. }) => {
                vec![PartitionStatus::Success.into()]
            }
            Self::Partition(_) => vec![PartitionStatus::Failed.into()],
            Self::ReprocessSample => vec![SampleStatus::Dlq.into()],
        }
    }

    /// What the name leaves out, as it is stored.
    pub fn options(self) -> Value {
        match self {
            Self::Partition(PartitionAction::Retry { clear_terminal, lane }) => {
                json!({ "clear_terminal": clear_terminal, "lane": lane.name() })
            }
            Self::Partition(PartitionAction::Reprocess { lane }) => json!({ "lane": lane.name() }),
            _ => json!({}),
        }
    }

    pub fn from_stored(name: &str, options: &Value) -> Option<Self> {
        let lane = || options.get("lane").and_then(Value::as_str).and_then(Lane::from_name);
        let clear_terminal = options.get("clear_terminal").and_then(Value::as_bool);
        Some(match name {
            "run.retry" => Self::Run(RunAction::Retry),
            "run.cancel" => Self::Run(RunAction::Cancel),
            "upload.reset" => Self::ResetItem,
            "partition.retry" => Self::Partition(PartitionAction::Retry {
                clear_terminal: clear_terminal?,
                lane: lane()?,
            }),
            "partition.reprocess" => Self::Partition(PartitionAction::Reprocess { lane: lane()? }),
            "partition.mark_terminal" => Self::Partition(PartitionAction::MarkTerminal),
            "partition.clear_terminal" => Self::Partition(PartitionAction::ClearTerminal),
            "partition.pause" => Self::Partition(PartitionAction::Pause),
            "partition.resume" => Self::Partition(PartitionAction::Resume),
            "sample.reprocess" => Self::ReprocessSample,
            _ => return None,
        })
    }

    /// Why the action would not change a unit; `None` if it would. Nothing else predicts or decides this.
    pub fn refusal(self, unit: &PlanUnit) -> Option<String> {
        match (self, unit) {
            (Self::Run(action), PlanUnit::Run(run)) => {
                run.state().apply(action.event()).err().map(|illegal| illegal.to_string())
            }
            (Self::ResetItem, PlanUnit::Item(item)) => {
                item.status.apply(ItemEvent::Reset).err().map(|illegal| illegal.to_string())
            }
            (Self::Partition(action), PlanUnit::Partition(partition)) => action.refusal(partition),
            (Self::ReprocessSample, PlanUnit::Sample(sample)) => {
                match SampleChange::of_reprocess(sample) {
                    SampleChange::Done => None,
                    SampleChange::NoData => {
                        Some("the line of the source was no sample, so there is no data".to_owned())
                    }
                    SampleChange::Refused(state) => Some(format!("the sample is {}", state.name())),
                    SampleChange::Unknown => Some(unit.missing()),
                }
            }
            _ => Some(format!("{} is not for a {}", self.name(), unit.kind().name())),
        }
    }

    /// What became of a unit that the plan changed, and its new cause; `None` while it is not known.
    pub fn outcome(
        self,
        frozen: &PlanUnitRecord,
        now: Option<&PlanUnit>,
    ) -> Option<(PlanOutcome, Option<String>)> {
        let Some(now) = now else { return Some((PlanOutcome::Superseded, None)) };
        let failed = || {
            let cause = now.cause();
            let same = cause == frozen.cause.as_deref();
            let outcome = if same { PlanOutcome::SameCause } else { PlanOutcome::OtherCause };
            Some((outcome, cause.map(str::to_owned)))
        };
        let recovered = Some((PlanOutcome::Recovered, None));
        match now {
            PlanUnit::Run(run) => match run.state() {
                RunState::Discovered | RunState::Processing | RunState::WaitingForRetry => None,
                // A verdict is no failure.
                RunState::Passed | RunState::NeedsReview | RunState::Failed => recovered,
                RunState::GivenUp => failed(),
                RunState::Cancelled => Some((PlanOutcome::Superseded, None)),
            },
            PlanUnit::Item(item) => match item.status {
                ItemStatus::Pending => None,
                ItemStatus::Uploaded | ItemStatus::Trusted | ItemStatus::Rejected => recovered,
                ItemStatus::UploadGiveup => failed(),
            },
            PlanUnit::Partition(partition) => match partition.state() {
                PartitionState::Absent | PartitionState::Pending | PartitionState::Reprocessing => {
                    None
                }
                PartitionState::Success if failed_since(partition, frozen) => failed(),
                PartitionState::Success => recovered,
                PartitionState::Failed | PartitionState::Terminal => failed(),
            },
            PlanUnit::Sample(sample) => match sample.state() {
                SampleState::Ready | SampleState::Running | SampleState::WaitingForRetry => None,
                SampleState::Succeeded | SampleState::Skipped => recovered,
                SampleState::Dead => failed(),
            },
        }
    }
}

/// A failed reprocess leaves the success, and is known by its failure.
fn failed_since(partition: &PartitionRecord, frozen: &PlanUnitRecord) -> bool {
    let failed_at = partition.last_failure.as_ref().map(|failure| failure.at);
    frozen.state == PartitionState::Success.name()
        && failed_at >= frozen.outcome_at
        && failed_at.is_some()
}

impl PartitionAction {
    /// Why the action would not change a partition.
    fn refusal(self, partition: &PartitionRecord) -> Option<String> {
        let state = partition.state();
        if self.is_so(partition) {
            return Some(match self {
                Self::Pause => "the partition is paused already".to_owned(),
                Self::Resume => "the partition is not paused".to_owned(),
                _ => format!("the partition is {} already", state.name()),
            });
        }
        (!self.is_allowed(state)).then(|| format!("the partition is {}", state.name()))
    }
}

/// The columns of a run that a retry replaces, to return them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunUndo {
    pub state: RunState,
    pub retry_count: u32,
    pub deferrals: u32,
    pub next_retry_at: Option<jiff::Timestamp>,
    pub first_attempt_at: Option<jiff::Timestamp>,
    pub attempts_at_reset: u32,
}

impl RunUndo {
    pub(crate) fn to_json(run: &RunRecord) -> Value {
        json!({
            "retry_count": run.retry_count,
            "deferrals": run.deferrals,
            "next_retry_at": run.next_retry_at.map(|at| at.as_microsecond()),
            "first_attempt_at": run.first_attempt_at.map(|at| at.as_microsecond()),
            "attempts_at_reset": run.attempts_at_reset,
        })
    }

    pub(crate) fn from_stored(state: &str, undo: &Value) -> Option<Self> {
        let number = |name: &str| undo.get(name)?.as_u64()?.try_into().ok();
        let time = |name: &str| {
            let micros = undo.get(name).and_then(Value::as_i64)?;
            jiff::Timestamp::from_microsecond(micros).ok()
        };
        Some(Self {
            state: RunState::ALL.into_iter().find(|known| known.name() == state)?,
            retry_count: number("retry_count")?,
            deferrals: number("deferrals")?,
            next_retry_at: time("next_retry_at"),
            first_attempt_at: time("first_attempt_at"),
            attempts_at_reset: number("attempts_at_reset")?,
        })
    }
}

/// The partition as it was before a retry or a reprocess made it pending.
pub(crate) fn partition_undo(partition: &PartitionRecord) -> Value {
    json!({
        "error_message": partition.error_message,
        "updated_at": partition.updated_at.as_microsecond(),
        "status": match partition.status {
            PartitionStatus::Pending => "pending",
            PartitionStatus::Success => "success",
            PartitionStatus::Failed => "failed",
        },
    })
}
