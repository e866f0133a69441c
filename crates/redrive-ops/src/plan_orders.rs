//! Orders to plans, with the refusals in words, and plans as they are shown.

use redrive_core::{InvalidPlanSettings, PlanId, PlanStatus};
use redrive_engine::{PlanExecutor, plan_waits_for, plan_waits_for_check, random_worker_id};
use redrive_store::{
    ItemGroup, Operator, PlanChange, PlanOrder, PlanOutcome, PlanRecord, PlanUnit, Result, UnitKind,
};

use crate::Ops;

/// Why an order to a plan was not carried out; nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderRefusal {
    Unknown,
    /// The plan cannot be applied with these settings.
    Invalid(InvalidPlanSettings),
    Refused {
        why: String,
        /// What to do instead.
        next: String,
    },
}

impl Ops {
    /// Gives an order to a plan.
    pub async fn order_plan(
        &self,
        id: PlanId,
        order: &PlanOrder,
        by: &Operator,
    ) -> Result<std::result::Result<(), OrderRefusal>> {
        if *order == PlanOrder::Undo {
            let plan = self.store().plans_by_id(&[id]).await?.pop();
            if let Some(plan) = plan.filter(|plan| !plan.action.can_be_undone()) {
                let next = match plan.action.inverse() {
                    Some(command) => format!("`redrive {command}` takes it back"),
                    None => format!("`redrive plan show {id}` shows its units"),
                };
                let why = format!("{} cannot be undone; nothing was changed", plan.action.name());
                return Ok(Err(OrderRefusal::Refused { why, next }));
            }
            // What has ended since cannot be returned, and there may be no executor that noted it.
            if let Ok(owner) = random_worker_id() {
                PlanExecutor::new(self.store().clone(), owner).settle_once(Some(id)).await?;
            }
        }
        Ok(match self.store().change_plan(id, order, by).await? {
            PlanChange::Done(_) => Ok(()),
            PlanChange::Unknown => Err(OrderRefusal::Unknown),
            PlanChange::Invalid(invalid) => Err(OrderRefusal::Invalid(invalid)),
            PlanChange::Refused(status) => Err(OrderRefusal::Refused {
                why: format!("plan {id} is {status}; nothing was changed"),
                next: next_step(id, status),
            }),
            PlanChange::NotFrozen => Err(OrderRefusal::Refused {
                why: format!("the list of plan {id} is not complete; nothing was changed"),
                next: "make a new plan: `redrive plan new`".to_owned(),
            }),
            PlanChange::NothingToReturn(status) => Err(OrderRefusal::Refused {
                why: format!(
                    "nothing to return: no unit of plan {id} is pending; it stays {status}"
                ),
                next: format!("`redrive plan show {id}` shows what became of its units"),
            }),
        })
    }

    /// What must be done so that pending units of a plan can end, and the next one can be changed.
    pub async fn plan_waits(&self, plan: &PlanRecord) -> Result<Vec<String>> {
        let is_served = |kind, place: &str| {
            self.declared().is_none_or(|declared| match kind {
                UnitKind::Run => declared.queue(place).is_some(),
                UnitKind::Partition => declared.source(place).is_some(),
                UnitKind::Item => declared.upload(place).is_some(),
                UnitKind::Sample => declared.pipeline(place).is_some(),
            })
        };
        let is_declared = |source: &str| is_served(UnitKind::Partition, source);
        let check = plan_waits_for_check(self.partitions(), plan, is_declared, self.now()).await?;
        let pending = plan_waits_for(&**self.store(), plan, is_served).await?;
        let gate = self.gate_before_plan(plan).await?;
        Ok(check.into_iter().chain(pending).chain(gate).collect())
    }

    /// Why a gate keeps the first pending unit of a plan back.
    async fn gate_before_plan(&self, plan: &PlanRecord) -> Result<Option<String>> {
        if plan.counts.pending == 0 {
            return Ok(None);
        }
        let pending = Some(PlanOutcome::Pending);
        let first = self.store().plan_units_page(plan.id, pending, 0, 1).await?;
        let ids: Vec<i64> = first.iter().map(|unit| unit.unit_id).collect();
        let Some(unit) = self.store().units_by_id(plan.action.kind(), &ids).await?.pop() else {
            return Ok(None);
        };
        let why = match &unit {
            PlanUnit::Run(run) => {
                self.gate_before(UnitKind::Run, &run.queue, &run.category).await?
            }
            PlanUnit::Partition(partition) => {
                let (source, customer) = (partition.key.source(), partition.key.customer_id());
                self.gate_before(UnitKind::Partition, source, customer).await?
            }
            PlanUnit::Item(item) => {
                let ItemGroup { upload, group } = &item.group;
                self.gate_before(UnitKind::Item, upload, group).await?
            }
            PlanUnit::Sample(sample) => self.gate_before_sample(sample).await?,
        };
        Ok(why.map(|why| format!("{} is pending: {why}", unit.unit())))
    }
}

fn next_step(id: PlanId, status: PlanStatus) -> String {
    match status {
        PlanStatus::Draft => format!("`redrive plan apply {id}` applies it"),
        PlanStatus::Running => format!("`redrive plan show {id}` shows its progress"),
        PlanStatus::Paused => format!("`redrive plan resume {id}` goes on with it"),
        PlanStatus::Done | PlanStatus::Aborted | PlanStatus::Undone => {
            "a plan is applied once; `redrive plan new` makes another".to_owned()
        }
    }
}
