//! What happens to plans and their units, as the store itself sees it.

use std::collections::BTreeMap;

use redrive_core::{PlanId, RunId};
use redrive_store::{
    JournalFilter, MAX_PAGE, PlanOutcome, PlanRecord, PlanUnitRecord, Result, RunRecord, Selection,
    Store,
};
use serde_json::Value;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PlanNews {
    /// The list of a plan is complete: units with state and version.
    Frozen { plan: PlanId, units: BTreeMap<i64, (String, i64)> },
    /// A step changed units.
    Stepped { plan: PlanId, before: BeforeStep, changed: Vec<ChangedRun> },
    /// An undo returned units.
    Returned { plan: PlanId, runs: Vec<ReturnedRun> },
}

/// A plan before a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BeforeStep {
    pub(crate) status: &'static str,
    /// Changed units that have not ended, that have ended, and of those that failed again.
    pub(crate) pending: u64,
    pub(crate) ended: u64,
    pub(crate) failed: u64,
}

/// A run before a step changed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChangedRun {
    pub(crate) run: i64,
    pub(crate) state: String,
    pub(crate) version: i64,
}

/// A run that an undo returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReturnedRun {
    pub(crate) before: ChangedRun,
    pub(crate) after: String,
    /// Whether the plan was the last to note something about it.
    pub(crate) is_untouched: bool,
}

/// A plan, its units and all runs, at one moment. No world fills a page.
pub(crate) struct PlanSnapshot {
    plan: PlanRecord,
    units: Vec<PlanUnitRecord>,
    runs: BTreeMap<i64, RunRecord>,
}

impl PlanSnapshot {
    pub(crate) async fn read(store: &dyn Store, id: PlanId) -> Result<Option<Self>> {
        let Some(plan) = store.plans_by_id(&[id]).await?.pop() else { return Ok(None) };
        let units = store.plan_units_page(id, None, 0, MAX_PAGE).await?;
        let runs = store.runs_page(&Selection::default(), RunId(0), MAX_PAGE.into()).await?;
        let runs = runs.into_iter().map(|run| (run.id.0, run)).collect();
        Ok(Some(Self { plan, units, runs }))
    }

    pub(crate) fn frozen(&self) -> PlanNews {
        let unit = |unit: &PlanUnitRecord| (unit.unit_id, (unit.state.clone(), unit.version));
        PlanNews::Frozen { plan: self.plan.id, units: self.units.iter().map(unit).collect() }
    }

    /// What a step has done since.
    pub(crate) fn stepped(&self, after: &Self) -> Option<PlanNews> {
        let changed = self.differing(after);
        let count = |wanted: &[PlanOutcome]| {
            let is_wanted =
                |unit: &&PlanUnitRecord| unit.outcome.is_some_and(|it| wanted.contains(&it));
            self.units.iter().filter(is_wanted).count() as u64
        };
        let failed = count(&[PlanOutcome::SameCause, PlanOutcome::OtherCause]);
        let pending = count(&[PlanOutcome::Pending]);
        let before = BeforeStep {
            status: self.plan.status.name(),
            pending,
            ended: failed + count(&[PlanOutcome::Recovered]),
            failed,
        };
        let plan = self.plan.id;
        (!changed.is_empty()).then_some(PlanNews::Stepped { plan, before, changed })
    }

    /// What an undo has done since.
    pub(crate) async fn returned(
        &self,
        after: &Self,
        store: &dyn Store,
    ) -> Result<Option<PlanNews>> {
        let mut runs = Vec::new();
        for before in self.differing(after) {
            let unit = Some(format!("run:{}", before.run));
            let filter = JournalFilter { unit, action: None };
            let entries = store.journal_page(&filter, 0, MAX_PAGE).await?;
            // The last entry is that of the undo.
            let last = entries.iter().rev().nth(1).map(|record| &record.entry.details);
            let details: Option<Value> = last.and_then(|it| serde_json::from_str(it).ok());
            let named = details.and_then(|details| details.get("plan")?.as_i64());
            let is_untouched = named == Some(self.plan.id.0);
            let after = after.runs[&before.run].state().name().to_owned();
            runs.push(ReturnedRun { before, after, is_untouched });
        }
        let plan = self.plan.id;
        Ok((!runs.is_empty()).then_some(PlanNews::Returned { plan, runs }))
    }

    fn differing(&self, after: &Self) -> Vec<ChangedRun> {
        let differs = |run: &&RunRecord| after.runs.get(&run.id.0) != Some(*run);
        let changed = |run: &RunRecord| ChangedRun {
            run: run.id.0,
            state: run.state().name().to_owned(),
            version: run.lease_epoch.0,
        };
        self.runs.values().filter(differs).map(changed).collect()
    }
}
