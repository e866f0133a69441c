//! A plan as it is shown.

use std::time::Duration;

use jiff::Timestamp;
use redrive_core::{PlanId, PlanStatus, PlanStep};
use redrive_store::{
    ItemRecord, PlanAction, PlanOutcome, PlanRecord, PlanUnitCount, RunRecord, StateFilter,
    UnitKind,
};
use serde::Serialize;
use serde_json::Value;

use super::{PartitionView, PlanCanaryView, PlanPeriodView, SampleView};
use crate::{
    PlanUnitChange, Resource,
    words::{between, human, seconds, shell_word},
};

/// A bulk action on a frozen list of units.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Plan))]
pub struct PlanView {
    #[cfg_attr(feature = "openapi", schema(value_type = i64))]
    pub id: PlanId,
    pub status: PlanStatus,
    /// Such as `run.retry`.
    pub action: &'static str,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub kind: UnitKind,
    /// What its units were selected by.
    pub selection: Value,
    /// The selection and the options of the action, as flags of commands.
    pub flags: String,
    /// Canary, pace, ramp and abort condition.
    pub settings: String,
    pub total: u64,
    pub changed: u64,
    /// Units that had changed, or whose state refuses the action.
    pub skipped: u64,
    /// Changed units that have not ended yet.
    pub pending: u64,
    pub recovered: u64,
    pub same_cause: u64,
    pub other_cause: u64,
    /// Changed units that others changed again before they ended.
    pub superseded: u64,
    pub undone: u64,
    /// How long the rest takes at the pace, in seconds.
    pub left_s: Value,
    #[serde(skip)]
    pub left: Option<Duration>,
    pub stop_reason: Option<String>,
    /// How the canary went, in words; null without one.
    pub canary: Option<String>,
    /// The process that executes the plan; null if none does.
    pub executed_by: Option<String>,
    /// How long the lease of that process lasts unless it is renewed, in seconds. After a kill, another process goes on
    /// with the plan then.
    pub lease_left_s: Value,
    #[serde(skip)]
    pub lease_left: Option<Duration>,
    /// What must be done so that pending units can end; only where one plan is shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<String>,
    /// Once a plan with a canary was applied; only where one plan is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary_units: Option<PlanCanaryView>,
    /// Outcomes over time; only where one plan is shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outcomes: Vec<PlanPeriodView>,
    pub created_at: Timestamp,
    pub created_by: String,
    /// Who applied, resumed or undid the plan last.
    pub ordered_by: Option<String>,
    /// The reason that was given last.
    pub reason: Option<String>,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// Units that are alike; only where one plan is shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<PlanUnitsView>,
}

/// Units of a plan that are alike.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = PlanUnits))]
pub struct PlanUnitsView {
    pub units: u64,
    /// The state when the list was frozen.
    pub state: String,
    pub cause: Option<String>,
    /// Why they are not changed, or were not expected to be.
    pub refusal: Option<String>,
    /// Null if the plan has not come to them.
    pub outcome: Option<PlanOutcome>,
    /// The cause of a new failure.
    pub new_cause: Option<String>,
}

impl PlanView {
    /// `now` is on the store's clock.
    pub fn new(plan: &PlanRecord, units: Vec<PlanUnitCount>, now: Timestamp) -> Self {
        let counts = &plan.counts;
        let left = plan.settings.time_for(counts.rest(), &plan.timing, now);
        // Parts of a second say nothing.
        let left = left.map(|left| Duration::from_secs(left.as_secs_f64().ceil() as u64));
        // How long a canary or a pause takes is not known.
        let step = plan.settings.next_step(counts, &plan.timing, now);
        let is_moving = plan.status == PlanStatus::Running && step != PlanStep::WaitForCanary;
        let left = left.filter(|_| is_moving);
        let lease_left = plan.lease_until.map(|until| between(now, until));
        let lease_left = lease_left.filter(|left| !left.is_zero());
        let lease_left = lease_left.map(|left| Duration::from_secs(left.as_secs().max(1)));
        let owner = plan.lease_owner.as_ref().filter(|_| lease_left.is_some());
        let selection: Value = serde_json::from_str(&plan.selection).unwrap_or_default();
        Self {
            id: plan.id,
            status: plan.status,
            action: plan.action.name(),
            kind: plan.action.kind(),
            flags: flags(plan.action, &selection),
            selection,
            settings: plan.settings.to_string(),
            total: counts.total,
            changed: counts.changed,
            skipped: counts.skipped,
            pending: counts.pending,
            recovered: counts.recovered,
            same_cause: counts.same_cause,
            other_cause: counts.other_cause,
            superseded: plan.superseded,
            undone: plan.undone,
            left_s: left.map_or(Value::Null, seconds),
            left,
            stop_reason: plan.stop_reason.clone(),
            canary: canary(plan),
            executed_by: owner.map(|owner| owner.0.clone()),
            lease_left_s: lease_left.map_or(Value::Null, seconds),
            lease_left,
            waits_for: Vec::new(),
            canary_units: None,
            outcomes: Vec::new(),
            created_at: plan.created_at,
            created_by: plan.created_by.clone(),
            ordered_by: plan.ordered_by.clone(),
            reason: plan.given_reason().map(str::to_owned),
            started_at: plan.started_at,
            ended_at: plan.ended_at,
            units: units.into_iter().map(PlanUnitsView::from).collect(),
        }
    }

    /// `410 of 2000 changed, 2 skipped; 40 pending, 370 recovered, 0 failed again; canary passed; 32s left`
    pub fn progress(&self) -> String {
        let Self { total, changed, skipped, pending, recovered, undone, .. } = self;
        let failed = self.same_cause + self.other_cause;
        let canary = self.canary.as_ref().map(|went| format!("; canary: {went}"));
        let left = self.left.map(|left| format!("; {} left", human(left)));
        let undone = (*undone > 0).then(|| format!(", {undone} returned"));
        format!(
            "{changed} of {total} changed, {skipped} skipped; {pending} pending, {recovered} recovered, \
             {failed} failed again{}{}{}",
            undone.unwrap_or_default(),
            canary.unwrap_or_default(),
            left.unwrap_or_default()
        )
    }

    /// What a plan that is done came to nothing by, if it did.
    pub fn failure(&self) -> Option<String> {
        let failed = self.same_cause + self.other_cause;
        match self.status {
            PlanStatus::Done if self.changed == 0 => Some("no unit was changed".to_owned()),
            PlanStatus::Done if failed > 0 && failed == self.changed => {
                Some(format!("all {failed} changed units failed again"))
            }
            _ => None,
        }
    }
}

fn canary(plan: &PlanRecord) -> Option<String> {
    let (canary, counts) = (plan.settings.canary()?, &plan.counts);
    let is_live = matches!(plan.status, PlanStatus::Running | PlanStatus::Paused);
    let went = match plan.status {
        PlanStatus::Draft => return Some("not started".to_owned()),
        _ if counts.tried() > canary => return Some("passed".to_owned()),
        PlanStatus::Aborted if counts.failed() > 0 => "failed".to_owned(),
        _ if is_live && counts.tried() < canary => {
            format!("{} of {canary} units changed", counts.tried())
        }
        _ if is_live && counts.ended() < canary => {
            format!("{} of {canary} units have not ended yet", counts.pending)
        }
        _ if is_live => "passed".to_owned(),
        PlanStatus::Done => "no unit was left for after it".to_owned(),
        _ => "not decided".to_owned(),
    };
    // Others changed them before they ended, so that further units take their places.
    Some(match counts.changed.saturating_sub(counts.tried()) {
        1.. if !is_live => went,
        0 => went,
        1 => format!("{went}; 1 more has no outcome"),
        others => format!("{went}; {others} more have no outcome"),
    })
}

/// `--queue orders --state given-up`
fn flags(action: PlanAction, selection: &Value) -> String {
    let states = match action.kind() {
        UnitKind::Run => RunRecord::STATES,
        UnitKind::Partition => PartitionView::STATES,
        UnitKind::Item => ItemRecord::STATES,
        UnitKind::Sample => SampleView::STATES,
    };
    let status = selection.get("status").and_then(Value::as_str);
    let waiting = selection.get("waiting").and_then(Value::as_bool);
    let is_state = |state: &StateFilter| Some(state.status) == status && state.waiting == waiting;
    let state = states.iter().find(|(_, state)| is_state(state)).map(|(name, _)| *name);
    let state = state.or(status).map(|state| format!("--state {}", state.replace('_', "-")));
    let terms = selection.as_object().into_iter().flatten();
    let terms = terms.filter(|(name, _)| !matches!(name.as_str(), "status" | "waiting"));
    let term = |(name, value): (&String, &Value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("--{} {}", name.replace('_', "-"), shell_word(&value))
    };
    let mut flags: Vec<String> = terms.map(term).chain(state).collect();
    if flags.is_empty() {
        flags.push("--all".to_owned());
    }
    flags.extend(action.flags());
    flags.join(" ")
}

/// A unit of a plan.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = PlanUnit))]
pub struct PlanUnitView {
    /// Such as `run:17`.
    pub unit: String,
    /// Its place in the plan: units are changed in this order.
    pub id: i64,
    /// The state when the list was frozen.
    pub state: String,
    pub cause: Option<String>,
    /// Null if the plan has not come to it.
    pub outcome: Option<PlanOutcome>,
    pub outcome_at: Option<Timestamp>,
    /// The cause of a new failure.
    pub new_cause: Option<String>,
    /// Why it is not changed.
    pub reason: Option<String>,
}

impl From<PlanUnitChange> for PlanUnitView {
    fn from(unit: PlanUnitChange) -> Self {
        let PlanUnitChange { id, record, change } = unit;
        Self {
            unit: change.unit,
            id,
            state: record.state,
            cause: record.cause,
            outcome: record.outcome,
            outcome_at: record.outcome_at,
            new_cause: record.new_cause,
            reason: record.reason.or(record.refusal),
        }
    }
}

impl From<PlanUnitCount> for PlanUnitsView {
    fn from(count: PlanUnitCount) -> Self {
        let PlanUnitCount { state, cause, refusal, outcome, new_cause, units } = count;
        Self { units, state, cause, refusal, outcome, new_cause }
    }
}
