//! A plan as it is shown.

use jiff::Timestamp;
use redrive_core::{PlanId, PlanStatus};
use redrive_store::{PlanOutcome, PlanRecord, PlanUnitCount, UnitKind};
use serde::Serialize;
use serde_json::Value;

use crate::words::seconds;

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
    pub stop_reason: Option<String>,
    pub created_at: Timestamp,
    pub created_by: String,
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
    /// Why they were not expected to be changed.
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
        let left = left.filter(|_| matches!(plan.status, PlanStatus::Running | PlanStatus::Paused));
        Self {
            id: plan.id,
            status: plan.status,
            action: plan.action.name(),
            kind: plan.action.kind(),
            selection: serde_json::from_str(&plan.selection).unwrap_or_default(),
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
            stop_reason: plan.stop_reason.clone(),
            created_at: plan.created_at,
            created_by: plan.created_by.clone(),
            reason: plan.reason.clone(),
            started_at: plan.started_at,
            ended_at: plan.ended_at,
            units: units.into_iter().map(PlanUnitsView::from).collect(),
        }
    }
}

impl From<PlanUnitCount> for PlanUnitsView {
    fn from(count: PlanUnitCount) -> Self {
        let PlanUnitCount { state, cause, refusal, outcome, new_cause, units } = count;
        Self { units, state, cause, refusal, outcome, new_cause }
    }
}
