//! Plans and their units in tables.

use std::time::Duration;

use redrive::{PlanStatus, jiff::Timestamp};
use redrive_ops::{
    views::{PlanUnitView, PlanUnitsView, PlanView},
    words::{human, in_largest_unit},
};
use serde::Serialize;

use crate::output::{TableColumn, TableRow, excerpt};

/// A plan as lines of text.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct PlanDetails<'a>(pub(super) &'a PlanView);

impl TableRow for PlanDetails<'_> {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("plan"),
        TableColumn::text("status"),
        TableColumn::text("action"),
        TableColumn::text("selection"),
        TableColumn::text("settings"),
        TableColumn::text("reason"),
        TableColumn::text("made"),
        TableColumn::text("started"),
        TableColumn::text("ended"),
        TableColumn::text("progress"),
        TableColumn::text("same cause"),
        TableColumn::text("other cause"),
        TableColumn::text("executed by"),
    ];

    fn cells(&self) -> Vec<String> {
        let plan = self.0;
        let at = |at: Option<Timestamp>| at.map(|at| at.to_string()).unwrap_or_default();
        let by = plan.ordered_by.as_ref().map(|by| format!("; ordered by {by}"));
        vec![
            plan.id.to_string(),
            plan.status.to_string(),
            plan.action.to_owned(),
            plan.flags.clone(),
            if plan.settings.is_empty() { "all at once".to_owned() } else { plan.settings.clone() },
            plan.reason.clone().unwrap_or_default(),
            format!("{} by {}", plan.created_at, plan.created_by),
            at(plan.started_at) + &by.unwrap_or_default(),
            at(plan.ended_at),
            plan.progress(),
            plan.same_cause.to_string(),
            plan.other_cause.to_string(),
            executor(plan),
        ]
    }
}

/// The process that executes a plan, or that none does.
fn executor(plan: &PlanView) -> String {
    let id = plan.id;
    match (&plan.executed_by, plan.lease_left) {
        (Some(worker), Some(left)) => {
            format!("{worker}; its lease ends in {} unless it is renewed", human(left))
        }
        _ if plan.status == PlanStatus::Running => format!(
            "nobody: `redrive plan resume {id}` goes on with it, and so does the next worker, `serve` or `up`"
        ),
        _ if plan.pending > 0 => {
            "nobody: the next worker, `serve` or `up` notes how its units end".to_owned()
        }
        _ => String::new(),
    }
}

/// A plan of a list, and the time of the list.
#[derive(Debug, Serialize)]
pub(super) struct PlanRow {
    #[serde(flatten)]
    pub(super) plan: PlanView,
    #[serde(skip)]
    pub(super) age: Duration,
}

impl TableRow for PlanRow {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::key("plan"),
        TableColumn::number("age"),
        TableColumn::text("status"),
        TableColumn::text("action"),
        TableColumn::text("selection"),
        TableColumn::number("units"),
        TableColumn::number("changed"),
        TableColumn::number("skipped"),
        TableColumn::number("pending"),
        TableColumn::number("recovered"),
        TableColumn::number("same cause"),
        TableColumn::number("other cause"),
        TableColumn::number("undone"),
        TableColumn::text("settings"),
    ];

    fn cells(&self) -> Vec<String> {
        let plan = &self.plan;
        vec![
            plan.id.to_string(),
            in_largest_unit(self.age),
            plan.status.to_string(),
            plan.action.to_owned(),
            plan.flags.clone(),
            plan.total.to_string(),
            plan.changed.to_string(),
            plan.skipped.to_string(),
            plan.pending.to_string(),
            plan.recovered.to_string(),
            plan.same_cause.to_string(),
            plan.other_cause.to_string(),
            plan.undone.to_string(),
            plan.settings.clone(),
        ]
    }
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct UnitsRow(pub(super) PlanUnitsView);

impl TableRow for UnitsRow {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::number("units"),
        TableColumn::text("state when planned"),
        TableColumn::text("cause"),
        TableColumn::text("outcome"),
        TableColumn::text("new cause"),
        TableColumn::text("not changed because"),
    ];

    fn cells(&self) -> Vec<String> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        vec![
            self.0.units.to_string(),
            self.0.state.clone(),
            text(&self.0.cause),
            self.0.outcome.map_or(String::new(), |outcome| outcome.name().replace('_', " ")),
            text(&self.0.new_cause),
            excerpt(&text(&self.0.refusal)),
        ]
    }
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct UnitRow(pub(super) PlanUnitView);

impl TableRow for UnitRow {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::key("unit"),
        TableColumn::number("id"),
        TableColumn::text("state when planned"),
        TableColumn::text("cause"),
        TableColumn::text("outcome"),
        TableColumn::text("new cause"),
        TableColumn::text("not changed because"),
    ];

    fn cells(&self) -> Vec<String> {
        let (unit, text) = (&self.0, |text: &Option<String>| text.clone().unwrap_or_default());
        vec![
            unit.unit.clone(),
            unit.id.to_string(),
            unit.state.clone(),
            text(&unit.cause),
            unit.outcome.map_or(String::new(), |outcome| outcome.name().replace('_', " ")),
            text(&unit.new_cause),
            excerpt(&text(&unit.reason)),
        ]
    }
}
