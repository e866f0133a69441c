//! Makes the list of units of a plan, page by page, so that a plan of any size takes constant memory. A preview is the same
//! walk without the writes.

use redrive_core::{ItemId, PartitionKey, PlanId, RunId, SampleId};
use redrive_store::{
    NewPlan, Operator, PageLimit, PlanAction, PlanUnit, PlannedUnit, Result, Selection, Store,
    UnitKind,
};

use crate::partitions::control::{ChangeOutcome, Control};

/// Units in one transaction. A larger page would hold up the workers' writes.
const PAGE: u32 = 5_000;

/// What a plan would do to a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanVerdict {
    Change,
    /// The unit is as requested; a plan does not list it.
    Already,
    Refuse {
        /// The same for all units that are refused alike: a plan counts them by it.
        why: String,
        /// More about this unit alone.
        detail: Option<String>,
        /// Whether an option of the action allows it.
        is_overridable: bool,
    },
}

/// A unit that matches, as it is, and what the action would do to it.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedUnit {
    pub unit: PlanUnit,
    pub verdict: PlanVerdict,
}

/// The units that an action is about, page by page.
pub struct PlanPages<'a> {
    control: &'a Control,
    action: PlanAction,
    by: &'a Operator,
    /// One for each state that the action is about.
    selections: Vec<Selection>,
    after: PageEnd,
}

#[derive(Debug, Default)]
struct PageEnd {
    id: i64,
    key: Option<PartitionKey>,
}

impl<'a> PlanPages<'a> {
    /// The time of `by` is the "now" of policies.
    pub fn new(
        control: &'a Control,
        action: PlanAction,
        selection: &Selection,
        by: &'a Operator,
    ) -> Self {
        let of = |state| Selection { state: Some(state), ..selection.clone() };
        let selections = match (selection.state, action.states()) {
            (None, states) if !states.is_empty() => states.into_iter().map(of).collect(),
            _ => vec![selection.clone()],
        };
        Self { control, action, by, selections, after: PageEnd::default() }
    }

    /// The next units, which may be none; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Vec<JudgedUnit>>> {
        while let Some(selection) = self.selections.first() {
            let store = &**self.control.store();
            if let Some(units) = page(store, self.action.kind(), selection, &mut self.after).await?
            {
                return Ok(Some(self.judge(selection, units).await));
            }
            self.selections.remove(0);
            self.after = PageEnd::default();
        }
        Ok(None)
    }

    async fn judge(&self, selection: &Selection, units: Vec<PlanUnit>) -> Vec<JudgedUnit> {
        if self.action.partition().is_none() {
            let judged = |unit: PlanUnit| {
                let refuse = |why| PlanVerdict::Refuse { why, detail: None, is_overridable: false };
                let verdict = self.action.refusal(&unit).map_or(PlanVerdict::Change, refuse);
                JudgedUnit { unit, verdict }
            };
            return units.into_iter().map(judged).collect();
        }
        let partitions = units.into_iter().filter_map(PlanUnit::into_partition).collect();
        let judged = self.control.judge(self.action, selection, partitions, self.by).await;
        let judged = judged.into_iter().map(|(partition, outcome)| JudgedUnit {
            unit: PlanUnit::Partition(partition),
            verdict: match outcome {
                ChangeOutcome::Done(_) => PlanVerdict::Change,
                ChangeOutcome::Already(_) => PlanVerdict::Already,
                ChangeOutcome::Refused(refusal) => {
                    let is_overridable = refusal.is_overridable();
                    let (why, detail) = refusal.into_words();
                    PlanVerdict::Refuse { why, detail, is_overridable }
                }
            },
        });
        judged.collect()
    }
}

/// Creates a draft over the units of a selection that the action is about, and completes its list. `None` if it would change
/// nothing: then there is no draft. Reports every unit that it comes across.
pub async fn freeze_plan(
    control: &Control,
    plan: &NewPlan,
    selection: &Selection,
    mut report: impl FnMut(&[JudgedUnit]) + Send,
) -> Result<Option<PlanId>> {
    let store = &**control.store();
    let mut pages = PlanPages::new(control, plan.action, selection, &plan.by);
    let (mut id, mut listed, mut changes) = (None, Vec::new(), false);
    while let Some(units) = pages.next().await? {
        report(&units);
        changes |= units.iter().any(|unit| unit.verdict == PlanVerdict::Change);
        listed.extend(units.iter().filter_map(|unit| planned(plan.action, unit)));
        if id.is_none() && !changes && listed.len() < PAGE as usize {
            continue;
        }
        let id = match id {
            Some(id) => id,
            None => {
                let created = store.create_plan(plan).await?;
                redrive_store::failpoint!("engine.plan.created");
                *id.insert(created)
            }
        };
        let _ = store.add_plan_units(id, &listed).await?;
        redrive_store::failpoint!("engine.plan.listed");
        listed.clear();
    }
    let Some(id) = id else { return Ok(None) };
    if !changes {
        // Too many units were refused to keep them in memory until one could be changed.
        while store.discard_plan(id, PAGE, &plan.by).await? {}
        return Ok(None);
    }
    let _ = store.freeze_plan(id, plan.by.at).await?;
    redrive_store::failpoint!("engine.plan.frozen");
    Ok(Some(id))
}

fn planned(action: PlanAction, judged: &JudgedUnit) -> Option<PlannedUnit> {
    let refusal = match &judged.verdict {
        PlanVerdict::Change => None,
        PlanVerdict::Refuse { why, .. } => Some(why.clone()),
        PlanVerdict::Already => return None,
    };
    Some(PlannedUnit { refusal, ..PlannedUnit::new(action, &judged.unit) })
}

/// The next page of matching units; `None` at the end.
async fn page(
    store: &dyn Store,
    kind: UnitKind,
    selection: &Selection,
    after: &mut PageEnd,
) -> Result<Option<Vec<PlanUnit>>> {
    let limit = PageLimit::without_data(PAGE);
    let units: Vec<PlanUnit> = match kind {
        UnitKind::Run => {
            let runs = store.runs_page(selection, RunId(after.id), limit).await?;
            runs.into_iter().map(PlanUnit::Run).collect()
        }
        UnitKind::Item => {
            let items = store.items_page(selection, ItemId(after.id), limit).await?;
            items.into_iter().map(PlanUnit::Item).collect()
        }
        UnitKind::Sample => {
            let samples = store.samples_page(selection, SampleId(after.id), limit).await?;
            samples.into_iter().map(PlanUnit::Sample).collect()
        }
        UnitKind::Partition => {
            let page = store.partitions_page(selection, after.key.as_ref(), limit).await?;
            page.into_iter().map(PlanUnit::Partition).collect()
        }
    };
    let Some(last) = units.last() else { return Ok(None) };
    after.id = last.id();
    if let PlanUnit::Partition(partition) = last {
        after.key = Some(partition.key.clone());
    }
    Ok(Some(units))
}
