//! Bulk actions: what they would do to each unit, the plans that do it, and the outcomes in the words of actions.

use std::collections::HashMap;

use redrive_core::{
    InvalidPlanSettings, PartitionState, PartitionStatus, PlanId, PlanSettings, RunState,
};
use redrive_engine::{JudgedUnit, PlanPages, PlanVerdict, freeze_plan};
use redrive_store::{
    MAX_PAGE, NewPlan, Operator, PartitionAction, PlanAction, PlanOutcome, PlanRecord, PlanUnit,
    PlanUnitRecord, Result, SampleChange, Selection, UnitKind,
};

use crate::{
    ChangeResult, ItemAction, Ops, OutcomeCounts, UnitChange,
    resources::{partition_hint, partition_state_name, run_state_name},
};

/// Units that need no change are listed up to this many.
const MAX_ALREADY: u32 = 100;

/// An action on all units that match.
#[derive(Debug, Clone)]
pub struct BulkAction<'a> {
    pub action: PlanAction,
    pub selection: &'a Selection,
    /// How its plan is applied.
    pub settings: PlanSettings,
    pub by: &'a Operator,
}

/// What a bulk action came across.
#[derive(Debug, Default)]
pub struct BulkSurvey {
    pub counts: OutcomeCounts,
    /// Units that are as requested without a change. A plan does not list them.
    pub already: Vec<UnitChange>,
    /// Whether more of them match.
    pub omits_already: bool,
    /// Why the first refused unit is refused.
    pub first_refusal: Option<String>,
}

/// A unit of a plan, with its id in the order of the plan.
#[derive(Debug)]
pub struct PlanUnitChange {
    pub id: i64,
    pub record: PlanUnitRecord,
    pub change: UnitChange,
}

impl Ops {
    /// Reports what a bulk action would do to each unit.
    pub async fn preview_bulk(
        &self,
        bulk: &BulkAction<'_>,
        report: &mut (dyn FnMut(Vec<UnitChange>) + Send),
    ) -> Result<BulkSurvey> {
        let mut survey = self.survey(bulk).await?;
        let mut pages = PlanPages::new(self.partitions(), bulk.action, bulk.selection, bulk.by);
        while let Some(units) = pages.next().await? {
            survey.add(bulk.action, &units);
            let is_listed = |unit: &&JudgedUnit| unit.verdict != PlanVerdict::Already;
            let listed = units.iter().filter(is_listed);
            report(listed.map(|unit| judged_change(bulk.action, unit)).collect());
        }
        report(survey.already.clone());
        Ok(survey)
    }

    /// Makes the plan of a bulk action; `None` if it would change nothing. There is no plan if it cannot have the settings.
    pub async fn freeze_bulk(
        &self,
        bulk: &BulkAction<'_>,
    ) -> Result<std::result::Result<(Option<PlanId>, BulkSurvey), InvalidPlanSettings>> {
        // Only the size of the plan is not known before.
        if let Err(invalid) = bulk.action.check_settings(&bulk.settings, u64::MAX) {
            return Ok(Err(invalid));
        }
        let mut survey = self.survey(bulk).await?;
        let plan = NewPlan {
            action: bulk.action,
            selection: bulk.selection.to_json().to_string(),
            settings: bulk.settings,
            by: bulk.by.clone(),
        };
        let mut units = 0;
        let report = |judged: &[JudgedUnit]| {
            let listed = judged.iter().filter(|unit| unit.verdict != PlanVerdict::Already);
            units += listed.count() as u64;
            survey.add(bulk.action, judged);
        };
        let id = freeze_plan(self.partitions(), &plan, bulk.selection, report).await?;
        if let (Some(id), Err(invalid)) = (id, bulk.settings.check_canary(units)) {
            while self.store().discard_plan(id, MAX_PAGE, bulk.by).await? {}
            return Ok(Err(invalid));
        }
        Ok(Ok((id, survey)))
    }

    /// A page of the units of a plan with ids above `after`, in the words of the action.
    pub async fn plan_changes(
        &self,
        plan: &PlanRecord,
        outcome: Option<PlanOutcome>,
        after: i64,
        limit: u32,
    ) -> Result<Vec<PlanUnitChange>> {
        let units = self.store().plan_units_page(plan.id, outcome, after, limit).await?;
        let kind = plan.action.kind();
        let ids: Vec<i64> = units.iter().map(|unit| unit.unit_id).collect();
        let found = self.store().units_by_id(kind, &ids).await?;
        let found: HashMap<i64, PlanUnit> =
            found.into_iter().map(|unit| (unit.id(), unit)).collect();
        let change = |record: PlanUnitRecord| {
            let change = planned_change(plan, &record, found.get(&record.unit_id));
            PlanUnitChange { id: record.unit_id, record, change }
        };
        Ok(units.into_iter().map(change).collect())
    }

    /// A retry says which partitions are pending already, though it is not about them.
    async fn survey(&self, bulk: &BulkAction<'_>) -> Result<BulkSurvey> {
        let mut survey = BulkSurvey::default();
        let is_retry = matches!(bulk.action.partition(), Some(PartitionAction::Retry { .. }));
        if !is_retry || bulk.selection.state.is_some() {
            return Ok(survey);
        }
        let state = Some(PartitionStatus::Pending.into());
        let pending = Selection { state, ..bulk.selection.clone() };
        let page = self.store().partitions_page(&pending, None, (MAX_ALREADY + 1).into()).await?;
        let already = |partition| JudgedUnit {
            unit: PlanUnit::Partition(partition),
            verdict: PlanVerdict::Already,
        };
        survey.add(bulk.action, &page.into_iter().map(already).collect::<Vec<_>>());
        Ok(survey)
    }
}

impl BulkSurvey {
    fn add(&mut self, action: PlanAction, units: &[JudgedUnit]) {
        for unit in units {
            let change = judged_change(action, unit);
            let is_already = change.outcome == ChangeResult::Already;
            if is_already && self.already.len() >= MAX_ALREADY as usize {
                self.omits_already = true;
                continue;
            }
            self.counts.add(&change);
            if is_already {
                self.already.push(change);
            } else if change.outcome == ChangeResult::Refused && self.first_refusal.is_none() {
                self.first_refusal = change.why;
            }
        }
    }
}

fn judged_change(action: PlanAction, judged: &JudgedUnit) -> UnitChange {
    let unit = &judged.unit;
    let change = match &judged.verdict {
        PlanVerdict::Change => UnitChange::new(unit.unit(), ChangeResult::WouldBeDone),
        PlanVerdict::Already => {
            let (kind, state) = (unit.kind().name(), unit.state());
            UnitChange::new(unit.unit(), ChangeResult::Already)
                .because(format!("the {kind} is {state}"))
        }
        PlanVerdict::Refuse { why, detail, is_overridable } => {
            let why = match detail {
                Some(detail) => format!("{why}: {detail}"),
                None => why.clone(),
            };
            let refused = UnitChange::refused(unit.unit(), why);
            UnitChange { is_overridable: *is_overridable, ..refused }
        }
    };
    with_words(change, action, unit.state(), Some(unit))
}

fn planned_change(
    plan: &PlanRecord,
    planned: &PlanUnitRecord,
    unit: Option<&PlanUnit>,
) -> UnitChange {
    let kind = plan.action.kind();
    let name = unit.map_or_else(|| format!("{}:{}", kind.name(), planned.unit_id), PlanUnit::unit);
    let reason = planned.reason.as_ref().or(planned.refusal.as_ref());
    let change = match (planned.outcome, reason) {
        (Some(PlanOutcome::Skipped), why) => {
            UnitChange::refused(name, why.cloned().unwrap_or_default())
        }
        (None, Some(why)) => UnitChange::refused(name, why.clone()),
        (None, None) => UnitChange::new(name, ChangeResult::WouldBeDone),
        (Some(_), _) => UnitChange::new(name, ChangeResult::Done),
    };
    with_words(change, plan.action, &planned.state, unit)
}

/// Adds the state before, and what the commands say about units of this kind.
fn with_words(
    change: UnitChange,
    action: PlanAction,
    state: &str,
    unit: Option<&PlanUnit>,
) -> UnitChange {
    let before = match action.kind() {
        UnitKind::Run => {
            let known = RunState::ALL.into_iter().find(|known| known.name() == state);
            known.map(run_state_name).unwrap_or(state)
        }
        UnitKind::Sample if state == "dead" => "dlq",
        UnitKind::Partition => {
            let known = PartitionState::ALL.into_iter().find(|known| known.name() == state);
            known.map(partition_state_name).unwrap_or(state)
        }
        UnitKind::Item | UnitKind::Sample => state,
    };
    let change = change.was(before);
    let is_done = matches!(change.outcome, ChangeResult::Done | ChangeResult::WouldBeDone);
    match (action, unit) {
        (PlanAction::ResetItem, Some(PlanUnit::Item(item))) if is_done => {
            change.because(format!("{}, after {} rejections", item.name, item.upload_attempts))
        }
        (PlanAction::ResetItem, Some(PlanUnit::Item(item))) => {
            let hint = ItemAction::Reset.hint(item.status);
            let why = change.why.clone().unwrap_or_default();
            change.because(format!("{why}{hint}"))
        }
        (PlanAction::ReprocessSample, Some(PlanUnit::Sample(sample)))
            if SampleChange::of_reprocess(sample) == SampleChange::NoData =>
        {
            let why = change.why.clone().unwrap_or_default();
            change
                .because(format!("{why} ({})", sample.error_message.as_deref().unwrap_or_default()))
        }
        (PlanAction::Partition(action) | PlanAction::ForcedPartition(action), _) => {
            partition_hint(change, action)
        }
        _ => change,
    }
}
