//! The actions of plans: which units they refuse, and what became of units that they changed.

use redrive_core::{
    InvalidPlanSettings, ItemEvent, ItemStatus, PartitionState, PartitionStatus, PlanSettings,
    RunState, RunStatus, SampleState, SampleStatus,
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
    /// Also partitions whose raw data is gone.
    ForcedPartition(PartitionAction),
    ReprocessSample,
}

impl PlanAction {
    pub fn kind(self) -> UnitKind {
        match self {
            Self::Run(_) => UnitKind::Run,
            Self::ResetItem => UnitKind::Item,
            Self::Partition(_) | Self::ForcedPartition(_) => UnitKind::Partition,
            Self::ReprocessSample => UnitKind::Sample,
        }
    }

    /// The action in the journal of each unit.
    pub fn name(self) -> &'static str {
        match self {
            Self::Run(action) => action.action(),
            Self::ResetItem => "upload.reset",
            Self::Partition(action) | Self::ForcedPartition(action) => action.action(),
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
            Self::Partition(action) | Self::ForcedPartition(action) => {
                matches!(action, PartitionAction::Retry { .. } | PartitionAction::Reprocess { .. })
            }
        }
    }

    /// Whether an executor must check partitions before it changes them for what the store does not know: their raw data
    /// unless they are forced, and the limits of their policy unless these are overridden.
    pub fn needs_check(self) -> bool {
        match self {
            Self::Partition(_) => self.redrives(),
            Self::ForcedPartition(action) => {
                matches!(action, PartitionAction::Retry { clear_terminal: false, .. })
            }
            Self::Run(_) | Self::ResetItem | Self::ReprocessSample => false,
        }
    }

    /// The command that takes it back, if a plan cannot.
    pub fn inverse(self) -> Option<&'static str> {
        match self.partition()? {
            PartitionAction::MarkTerminal => Some("state clear-terminal"),
            PartitionAction::ClearTerminal => Some("state mark-terminal"),
            PartitionAction::Pause => Some("state resume"),
            PartitionAction::Resume => Some("state pause"),
            PartitionAction::Retry { .. }
            | PartitionAction::Reprocess { .. }
            | PartitionAction::Backfill { .. } => None,
        }
    }

    /// Refuses settings that would protect nothing.
    pub fn check_settings(
        self,
        settings: &PlanSettings,
        units: u64,
    ) -> Result<(), InvalidPlanSettings> {
        let watches = settings.canary().is_some() || settings.abort_if().is_some();
        if watches && !self.redrives() {
            let (action, others) = (self.name(), Self::redriving().join(", "));
            return Err(InvalidPlanSettings::NothingTried { action, others });
        }
        settings.check_canary(units)
    }

    /// The names of the actions that try units again.
    fn redriving() -> Vec<&'static str> {
        let options = json!({ "clear_terminal": false, "lane": Lane::Fresh.name() });
        let redrives = |name: &&str| Self::from_stored(name, &options).is_some_and(Self::redrives);
        Self::NAMES.into_iter().filter(redrives).collect()
    }

    pub fn partition(self) -> Option<PartitionAction> {
        match self {
            Self::Partition(action) | Self::ForcedPartition(action) => Some(action),
            Self::Run(_) | Self::ResetItem | Self::ReprocessSample => None,
        }
    }

    /// The states that the action is about, if a selection names none; all if there are none.
    pub fn states(self) -> Vec<StateFilter> {
        match self {
            Self::Run(RunAction::Retry) => vec![RunState::GivenUp.into()],
            Self::Run(RunAction::Cancel) => {
                let open = [RunStatus::Discovered, RunStatus::Processing, RunStatus::Error];
                open.map(StateFilter::from).to_vec()
            }
            Self::ResetItem => vec![ItemStatus::UploadGiveup.into()],
            Self::Partition(action) | Self::ForcedPartition(action) => match action {
                PartitionAction::Reprocess { .. } => vec![PartitionStatus::Success.into()],
                PartitionAction::Retry { .. }
                | PartitionAction::MarkTerminal
                | PartitionAction::ClearTerminal => vec![PartitionStatus::Failed.into()],
                PartitionAction::Backfill { .. }
                | PartitionAction::Pause
                | PartitionAction::Resume => Vec::new(),
            },
            Self::ReprocessSample => vec![SampleStatus::Dlq.into()],
        }
    }

    /// What the name leaves out, as it is stored.
    pub fn options(self) -> Value {
        let mut options = match self.partition() {
            Some(PartitionAction::Retry { clear_terminal, lane }) => {
                json!({ "clear_terminal": clear_terminal, "lane": lane.name() })
            }
            Some(PartitionAction::Reprocess { lane }) => json!({ "lane": lane.name() }),
            _ => json!({}),
        };
        if let (Self::ForcedPartition(_), Some(options)) = (self, options.as_object_mut()) {
            options.insert("force".to_owned(), true.into());
        }
        options
    }

    /// The options that are on, as flags of a command.
    pub fn flags(self) -> Vec<String> {
        let options = self.options();
        let flags = [("clear_terminal", "--clear-terminal"), ("force", "--force")];
        let given = flags.iter().filter(|(name, _)| options.get(name) == Some(&true.into()));
        given.map(|(_, flag)| (*flag).to_owned()).collect()
    }

    /// The names that [`from_stored`](Self::from_stored) knows.
    pub const NAMES: [&str; 10] = [
        "run.retry",
        "run.cancel",
        "upload.reset",
        "partition.retry",
        "partition.reprocess",
        "partition.mark_terminal",
        "partition.clear_terminal",
        "partition.pause",
        "partition.resume",
        "sample.reprocess",
    ];

    pub fn from_stored(name: &str, options: &Value) -> Option<Self> {
        let lane = || options.get("lane").and_then(Value::as_str).and_then(Lane::from_name);
        let clear_terminal = options.get("clear_terminal").and_then(Value::as_bool);
        let action = match name {
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
        };
        let forced = options.get("force").and_then(Value::as_bool) == Some(true);
        Some(match action {
            Self::Partition(action) if forced => Self::ForcedPartition(action),
            action => action,
        })
    }

    /// Why the action would not change a unit; `None` if it would. Nothing else predicts or decides this. Units that are refused
    /// alike have the same text, because they are counted by it.
    pub fn refusal(self, unit: &PlanUnit) -> Option<String> {
        match (self, unit) {
            (Self::Run(action), PlanUnit::Run(run)) => {
                let illegal = run.state().apply(action.event()).is_err();
                illegal.then(|| format!("the run is {}", run.state().name()))
            }
            (Self::ResetItem, PlanUnit::Item(item)) => {
                let illegal = item.status.apply(ItemEvent::Reset).is_err();
                illegal.then(|| format!("the item is {}", item.status))
            }
            (
                Self::Partition(action) | Self::ForcedPartition(action),
                PlanUnit::Partition(partition),
            ) => action.refusal(partition),
            (Self::ReprocessSample, PlanUnit::Sample(sample)) => {
                match SampleChange::of_reprocess(sample) {
                    SampleChange::Done => None,
                    SampleChange::NoData => Some(
                        "the sample has no data to reprocess; `dlq edit` or `dlq reprocess --patch` gives it data"
                            .to_owned(),
                    ),
                    SampleChange::Refused(state) => Some(format!("the sample is {}", state.name())),
                    SampleChange::Unknown => Some("the sample is gone".to_owned()),
                }
            }
            _ => Some(format!("{} is not for a {}", self.name(), unit.kind().name())),
        }
    }

    /// What became of a unit that the plan changed, and its new cause, as its state tells; `None` while it is not known.
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
                // A failed reprocess leaves the success, and its data.
                PartitionState::Success if frozen.state == PartitionState::Success.name() => {
                    let tried = i64::from(partition.attempt_count) > frozen.version;
                    match tried.then(|| frozen.run_before()) {
                        None => Some((PlanOutcome::Superseded, None)),
                        Some(before) if before == run_id(partition) => failed(),
                        Some(_) => recovered,
                    }
                }
                PartitionState::Success => recovered,
                PartitionState::Failed | PartitionState::Terminal
                    if i64::from(partition.attempt_count) <= frozen.version =>
                {
                    Some((PlanOutcome::Superseded, None))
                }
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

fn run_id(partition: &PartitionRecord) -> Option<String> {
    partition.current_run_id.as_ref().map(ToString::to_string)
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
            "attempts": run.attempts,
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
        "current_run_id": run_id(partition),
        "status": match partition.status {
            PartitionStatus::Pending => "pending",
            PartitionStatus::Success => "success",
            PartitionStatus::Failed => "failed",
        },
    })
}
