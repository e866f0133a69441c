//! The units of plans: how they were when the list was frozen, and what became of them.

use std::collections::HashMap;

use jiff::Timestamp;
use redrive_core::{
    ItemEvent, ItemStatus, PartitionStatus, PlanId, RunId, RunState, SampleStatus, Unit,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    Error, FirstEnds, FromRow, ItemMove, ItemRecord, JournalEntry, Operator, PartitionRecord,
    PartitionWrite, PlanAction, Result, RowReader, RunRecord, RunUndo, SampleRecord, UnitKind,
    WorkWrite, plan_actions::partition_undo, sample_unit,
};

/// A unit that a plan is about, without its data.
#[derive(Debug, Clone, PartialEq)]
pub enum PlanUnit {
    Run(RunRecord),
    Item(ItemRecord),
    Partition(PartitionRecord),
    Sample(SampleRecord),
}

impl PlanUnit {
    pub fn kind(&self) -> UnitKind {
        match self {
            Self::Run(_) => UnitKind::Run,
            Self::Item(_) => UnitKind::Item,
            Self::Partition(_) => UnitKind::Partition,
            Self::Sample(_) => UnitKind::Sample,
        }
    }

    pub fn id(&self) -> i64 {
        match self {
            Self::Run(run) => run.id.0,
            Self::Item(item) => item.id.0,
            Self::Partition(partition) => partition.id.0,
            Self::Sample(sample) => sample.id.0,
        }
    }

    pub fn run_state(&self) -> Option<(RunId, RunState)> {
        match self {
            Self::Run(run) => Some((run.id, run.state())),
            _ => None,
        }
    }

    pub fn as_item(&self) -> Option<&ItemRecord> {
        match self {
            Self::Item(item) => Some(item),
            _ => None,
        }
    }

    pub fn as_partition(&self) -> Option<&PartitionRecord> {
        match self {
            Self::Partition(partition) => Some(partition),
            _ => None,
        }
    }

    pub fn into_partition(self) -> Option<PartitionRecord> {
        match self {
            Self::Partition(partition) => Some(partition),
            _ => None,
        }
    }

    pub fn as_sample(&self) -> Option<&SampleRecord> {
        match self {
            Self::Sample(sample) => Some(sample),
            _ => None,
        }
    }

    /// The unit in the journal.
    pub fn unit(&self) -> String {
        match self {
            Self::Run(run) => Unit::Run(run.id).to_string(),
            Self::Item(item) => Unit::Item(item.id).to_string(),
            Self::Partition(partition) => Unit::Partition(partition.key.clone()).to_string(),
            Self::Sample(sample) => sample_unit(sample.id, &sample.stage_name),
        }
    }

    pub fn state(&self) -> &'static str {
        match self {
            Self::Run(run) => run.state().name(),
            Self::Item(item) => item.status.name(),
            Self::Partition(partition) => partition.state().name(),
            Self::Sample(sample) => sample.state().name(),
        }
    }

    /// A number that an attempt at the unit changes. A unit of the same state and version is as it was.
    pub fn version(&self) -> i64 {
        match self {
            Self::Run(run) => run.lease_epoch.0,
            Self::Item(item) => i64::from(item.last_attempt.0),
            Self::Partition(partition) => i64::from(partition.attempt_count),
            Self::Sample(sample) => sample.lease_epoch.0,
        }
    }

    /// The cause of the current failure, if the unit waits or is stuck.
    pub fn cause(&self) -> Option<&str> {
        match self {
            Self::Run(run) => match run.state() {
                RunState::WaitingForRetry | RunState::GivenUp => run.fingerprint.as_deref(),
                _ => None,
            },
            Self::Item(item) => match item.status {
                ItemStatus::Pending | ItemStatus::UploadGiveup => item.fingerprint.as_deref(),
                _ => None,
            },
            Self::Partition(partition) => {
                partition.last_failure.as_ref().map(|failure| failure.fingerprint.as_str())
            }
            Self::Sample(sample) => match sample.status {
                SampleStatus::Pending | SampleStatus::Dlq => sample.fingerprint.as_deref(),
                _ => None,
            },
        }
    }

    /// What the action replaces and an undo returns, and the last attempt, as JSON.
    fn undo(&self) -> Value {
        match self {
            Self::Run(run) => RunUndo::to_json(run),
            Self::Item(item) => json!({ "attempts_at_reset": item.attempts_at_reset }),
            Self::Partition(partition) => partition_undo(partition),
            Self::Sample(sample) => json!({
                "attempts_at_reset": sample.attempts_at_reset,
                "retry_count": sample.retry_count,
                "deferrals": sample.deferrals,
                "first_attempt_at": sample.first_attempt_at.map(|at| at.as_microsecond()),
                "attempts": sample.attempts,
                "stage": sample.stage_name,
                "last_attempt_at": sample.last_attempt_at.map(|at| at.as_microsecond()),
            }),
        }
    }
}

/// A unit for the list of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedUnit {
    pub unit_id: i64,
    pub state: &'static str,
    pub version: i64,
    pub cause: Option<String>,
    /// Why the unit would not be changed.
    pub refusal: Option<String>,
}

impl PlannedUnit {
    pub fn new(action: PlanAction, unit: &PlanUnit) -> Self {
        Self {
            unit_id: unit.id(),
            state: unit.state(),
            version: unit.version(),
            cause: unit.cause().map(str::to_owned),
            refusal: action.refusal(unit),
        }
    }
}

/// What became of a unit of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum PlanOutcome {
    /// Not changed.
    Skipped,
    /// Changed by an action that tries nothing again.
    Applied,
    /// Changed, and not ended yet.
    Pending,
    Recovered,
    /// Failed again, of the same cause.
    SameCause,
    OtherCause,
    /// Changed again by others before it ended.
    Superseded,
    /// Returned by an undo.
    Undone,
}

impl PlanOutcome {
    pub const ALL: [Self; 8] = [
        Self::Skipped,
        Self::Applied,
        Self::Pending,
        Self::Recovered,
        Self::SameCause,
        Self::OtherCause,
        Self::Superseded,
        Self::Undone,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Skipped => "skipped",
            Self::Applied => "applied",
            Self::Pending => "pending",
            Self::Recovered => "recovered",
            Self::SameCause => "same_cause",
            Self::OtherCause => "other_cause",
            Self::Superseded => "superseded",
            Self::Undone => "undone",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.name() == name)
    }

    /// Whether the unit was tried again and ended.
    pub fn is_end(self) -> bool {
        matches!(self, Self::Recovered | Self::SameCause | Self::OtherCause)
    }

    /// Whether the plan changed the unit.
    pub fn is_change(self) -> bool {
        self != Self::Skipped
    }
}

/// A unit in the list of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanUnitRecord {
    pub unit_id: i64,
    /// State, version and cause when the list was frozen.
    pub state: String,
    pub version: i64,
    pub cause: Option<String>,
    /// Why the unit was not expected to be changed.
    pub refusal: Option<String>,
    /// `None` if the plan has not come to it.
    pub outcome: Option<PlanOutcome>,
    /// Why the unit was skipped.
    pub reason: Option<String>,
    pub outcome_at: Option<Timestamp>,
    /// The cause of a new failure.
    pub new_cause: Option<String>,
    /// What an undo returns, as JSON.
    pub undo: Option<String>,
}

impl FromRow for PlanUnitRecord {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok(Self {
            unit_id: row.get()?,
            state: row.get()?,
            version: row.get()?,
            cause: row.get()?,
            refusal: row.get()?,
            outcome: row.optional_named("outcome", PlanOutcome::from_name)?,
            reason: row.get()?,
            outcome_at: row.optional_timestamp()?,
            new_cause: row.get()?,
            undo: row.get()?,
        })
    }
}

/// Units that are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanUnitCount {
    pub state: String,
    pub cause: Option<String>,
    /// Why they are not changed, or were not expected to be.
    pub refusal: Option<String>,
    pub outcome: Option<PlanOutcome>,
    pub new_cause: Option<String>,
    pub units: u64,
}

impl FromRow for PlanUnitCount {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok(Self {
            state: row.get()?,
            cause: row.get()?,
            refusal: row.get()?,
            outcome: row.optional_named("outcome", PlanOutcome::from_name)?,
            new_cause: row.get()?,
            units: row.count("units")?,
        })
    }
}

/// Units of a plan that ended with the same outcome in a period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanOutcomeCount {
    pub from: Timestamp,
    /// How long the period is.
    pub seconds: u64,
    pub outcome: PlanOutcome,
    pub units: u64,
}

impl FromRow for PlanOutcomeCount {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok(Self {
            from: row.timestamp()?,
            seconds: row.count("length")?,
            outcome: row.named("outcome", PlanOutcome::from_name)?,
            units: row.count("units")?,
        })
    }
}

/// What is noted about a unit of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanUnitWrite {
    pub unit_id: i64,
    pub outcome: PlanOutcome,
    pub reason: Option<String>,
    pub new_cause: Option<String>,
    pub undo: Option<String>,
}

impl PlanUnitWrite {
    fn new(unit_id: i64, outcome: PlanOutcome) -> Self {
        Self { unit_id, outcome, reason: None, new_cause: None, undo: None }
    }

    fn skip(unit_id: i64, reason: String) -> Self {
        Self { reason: Some(reason), ..Self::new(unit_id, PlanOutcome::Skipped) }
    }

    pub fn is_changed(&self) -> bool {
        self.outcome.is_change()
    }
}

impl PlanAction {
    /// Decides about the next units of a plan, given the units as they are, until `most` of them are to be changed. The
    /// caller changes those that are not skipped, in the same transaction.
    pub fn decide(
        self,
        units: &[PlanUnitRecord],
        found: &HashMap<i64, PlanUnit>,
        most: usize,
    ) -> Vec<PlanUnitWrite> {
        let decide = |frozen: &PlanUnitRecord| {
            let Some(unit) = found.get(&frozen.unit_id) else {
                // Without the id, so that such units are counted together.
                let why = format!("the {} is gone", self.kind().name());
                return PlanUnitWrite::skip(frozen.unit_id, why);
            };
            let why = frozen.difference(unit).or_else(|| frozen.refusal.clone());
            let why = why.or_else(|| self.refusal(unit));
            if let Some(why) = why {
                return PlanUnitWrite::skip(frozen.unit_id, why);
            }
            let outcome = if self.redrives() { PlanOutcome::Pending } else { PlanOutcome::Applied };
            let undo = self.redrives().then(|| unit.undo().to_string());
            PlanUnitWrite { undo, ..PlanUnitWrite::new(frozen.unit_id, outcome) }
        };
        let mut changed = 0;
        let within = |write: &PlanUnitWrite| {
            changed += usize::from(write.is_changed());
            changed <= most
        };
        units.iter().map(decide).take_while(within).collect()
    }

    /// The pending units that have ended.
    pub fn outcomes(
        self,
        units: &[PlanUnitRecord],
        found: &HashMap<i64, PlanUnit>,
        first: &FirstEnds,
    ) -> Vec<PlanUnitWrite> {
        let outcome = |frozen: &PlanUnitRecord| {
            let now = || self.outcome(frozen, found.get(&frozen.unit_id));
            let (outcome, new_cause) = first.outcome(frozen).or_else(now)?;
            Some(PlanUnitWrite { new_cause, ..PlanUnitWrite::new(frozen.unit_id, outcome) })
        };
        units.iter().filter_map(outcome).collect()
    }

    /// The pending units that can be returned: they are as the plan left them, and nothing was noted about them since, but that
    /// workers released them before they started them.
    pub fn undoable<'a>(
        self,
        plan: PlanId,
        units: &'a [PlanUnitRecord],
        found: &'a HashMap<i64, PlanUnit>,
        newest: &HashMap<String, NewestEntry>,
    ) -> Vec<(&'a PlanUnitRecord, &'a PlanUnit)> {
        let undoable = |frozen: &'a PlanUnitRecord| {
            let unit = found.get(&frozen.unit_id)?;
            let entry = newest.get(&unit.unit())?;
            (self.is_waiting(unit) && frozen.is_untried(unit) && entry.is_of(self, plan))
                .then_some((frozen, unit))
        };
        units.iter().filter_map(undoable).collect()
    }

    /// Whether a unit is as the action leaves it, and no worker has it.
    fn is_waiting(self, unit: &PlanUnit) -> bool {
        match unit {
            PlanUnit::Run(run) => run.state() == RunState::Discovered,
            PlanUnit::Item(item) => item.status == ItemStatus::Pending,
            PlanUnit::Partition(partition) => partition.work.as_ref().is_some_and(|work| {
                work.request.is_some()
                    && work.lease_owner.is_none()
                    && partition.status != PartitionStatus::Failed
            }),
            // The pipeline run has counted the sample as open again, and may have moved on since.
            PlanUnit::Sample(_) => false,
        }
    }

    /// The journal entry about a unit that is returned.
    pub fn undo_entry(
        self,
        plan: PlanId,
        frozen: &PlanUnitRecord,
        unit: &PlanUnit,
        by: &Operator,
    ) -> JournalEntry {
        let details = json!({
            "before": unit.state(),
            "after": frozen.state,
            "plan": plan.0,
            "reason": by.reason,
        });
        JournalEntry {
            at: by.at,
            actor: by.actor.clone(),
            action: format!("{}.undo", unit.kind().name()),
            unit: Some(unit.unit()),
            filter: None,
            details: details.to_string(),
            dedupe_key: None,
        }
    }
}

impl PlanUnitRecord {
    pub fn undone(&self) -> PlanUnitWrite {
        PlanUnitWrite::new(self.unit_id, PlanOutcome::Undone)
    }

    /// What a run was like before the plan changed it.
    pub fn run_undo(&self) -> Option<RunUndo> {
        RunUndo::from_stored(&self.state, &self.undo_json()?)
    }

    /// Whether no attempt at a unit has ended since the plan changed it. A claim alone is none, and changes the version of a run.
    fn is_untried(&self, unit: &PlanUnit) -> bool {
        match unit {
            PlanUnit::Run(run) => {
                let before = self.undo_json().and_then(|undo| undo.get("attempts")?.as_u64());
                before == Some(u64::from(run.attempts))
            }
            _ => unit.version() == self.version,
        }
    }

    /// The count at which an item had been reset before.
    pub fn item_undo(&self) -> Option<i64> {
        self.undo_json()?.get("attempts_at_reset")?.as_i64()
    }

    /// The run whose data a partition had when the plan changed it.
    pub(crate) fn run_before(&self) -> Option<String> {
        self.undo_json()?.get("current_run_id")?.as_str().map(str::to_owned)
    }

    /// A partition without the request of the plan, as it was before.
    pub fn partition_undo(
        &self,
        now: &PartitionRecord,
        journal: JournalEntry,
    ) -> Option<PartitionWrite> {
        let undo = self.undo_json()?;
        let mut after = now.clone();
        after.status = PartitionStatus::from_name(undo.get("status")?.as_str()?)?;
        after.error_message = undo.get("error_message").and_then(Value::as_str).map(str::to_owned);
        let state_changed = after.status != now.status || after.error_message != now.error_message;
        if state_changed {
            let updated_at = undo.get("updated_at")?.as_i64()?;
            after.updated_at = Timestamp::from_microsecond(updated_at).ok()?;
        }
        let mut work = WorkWrite::Remove;
        if let Some(paused) = after.work.as_mut().filter(|work| work.paused.is_some()) {
            (paused.request, work) = (None, WorkWrite::Put);
        } else {
            after.work = None;
        }
        Some(PartitionWrite { after, state_changed, work, attempt: None, journal: vec![journal] })
    }

    pub(crate) fn undo_json(&self) -> Option<Value> {
        serde_json::from_str(self.undo.as_deref()?).ok()
    }

    pub fn bad_undo(&self) -> Error {
        Error::bad_value("undoing a plan", "undo", self.undo.clone().unwrap_or_default())
    }

    /// How a unit differs from what was frozen.
    fn difference(&self, unit: &PlanUnit) -> Option<String> {
        let kind = unit.kind().name();
        if self.state != unit.state() {
            return Some(format!("the {kind} was {} and is {} now", self.state, unit.state()));
        }
        (self.version != unit.version())
            .then(|| format!("the {kind} was tried again since the plan was made"))
    }
}

/// What a reset of an item writes.
pub fn item_reset(item: &ItemRecord, by: &Operator) -> ItemMove {
    let details = json!({ "attempts": item.upload_attempts, "reason": by.reason });
    let journal = JournalEntry {
        at: by.at,
        actor: by.actor.clone(),
        action: PlanAction::ResetItem.name().to_owned(),
        unit: Some(Unit::Item(item.id).to_string()),
        filter: None,
        details: details.to_string(),
        dedupe_key: None,
    };
    ItemMove { journal: Some(journal), ..ItemMove::new(item.id, ItemEvent::Reset, by.at) }
}

/// The newest journal entry of a unit, without notes and without [`crate::NEVER_STARTED`] releases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewestEntry {
    pub action: String,
    pub details: String,
}

impl NewestEntry {
    fn is_of(&self, action: PlanAction, plan: PlanId) -> bool {
        let details: Option<Value> = serde_json::from_str(&self.details).ok();
        let named = details.and_then(|details| details.get("plan")?.as_i64());
        self.action == action.name() && named == Some(plan.0)
    }
}

impl FromRow for (String, NewestEntry) {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        let unit = row.get()?;
        Ok((unit, NewestEntry { action: row.get()?, details: row.get()? }))
    }
}
