//! Makes the list of units of a plan, page by page, so that a plan of any size takes constant memory.

use redrive_core::{ItemId, PartitionKey, PlanId, RunId, SampleId};
use redrive_store::{
    NewPlan, PageLimit, PlanAction, PlanUnit, PlannedUnit, Result, Selection, Store, UnitKind,
};

/// Units in one transaction. A larger page would hold up the workers' writes.
const PAGE: u32 = 5_000;

/// A unit that a rule outside of the store keeps from being changed, and why.
pub type Refuse<'a> = &'a (dyn Fn(&PlanUnit) -> Option<String> + Send + Sync);

/// Creates a draft over the units of all selections, and completes its list. A unit that several selections match is listed
/// once. `refuse` predicts what the store does not know.
pub async fn freeze_plan(
    store: &dyn Store,
    plan: &NewPlan,
    selections: &[Selection],
    refuse: Refuse<'_>,
) -> Result<PlanId> {
    let id = store.create_plan(plan).await?;
    redrive_store::failpoint!("engine.plan.created");
    for selection in selections {
        let mut after = PageEnd::default();
        while let Some(units) = page(store, plan.action.kind(), selection, &mut after).await? {
            let planned: Vec<PlannedUnit> =
                units.iter().map(|unit| planned(plan.action, unit, refuse)).collect();
            let _ = store.add_plan_units(id, &planned).await?;
            redrive_store::failpoint!("engine.plan.listed");
        }
    }
    let _ = store.freeze_plan(id, plan.by.at).await?;
    redrive_store::failpoint!("engine.plan.frozen");
    Ok(id)
}

fn planned(action: PlanAction, unit: &PlanUnit, refuse: Refuse<'_>) -> PlannedUnit {
    let planned = PlannedUnit::new(action, unit);
    let refusal = planned.refusal.or_else(|| refuse(unit));
    PlannedUnit { refusal, ..planned }
}

#[derive(Debug, Default)]
struct PageEnd {
    id: i64,
    key: Option<PartitionKey>,
}

/// The next page of matching units; `None` at the end.
async fn page(
    store: &dyn Store,
    kind: UnitKind,
    selection: &Selection,
    after: &mut PageEnd,
) -> Result<Option<Vec<PlanUnit>>> {
    let limit = PageLimit { rows: PAGE, with_data: false };
    let units: Vec<PlanUnit> = match kind {
        UnitKind::Run => {
            let runs = store.runs_page(selection, RunId(after.id), limit).await?;
            runs.into_iter().map(PlanUnit::Run).collect()
        }
        UnitKind::Item => {
            let items = store.items_page(selection, ItemId(after.id), PAGE).await?;
            items.into_iter().map(PlanUnit::Item).collect()
        }
        UnitKind::Sample => {
            let samples = store.samples_page(selection, SampleId(after.id), limit).await?;
            samples.into_iter().map(PlanUnit::Sample).collect()
        }
        UnitKind::Partition => {
            let page = store.partitions_page(selection, after.key.as_ref(), PAGE).await?;
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
