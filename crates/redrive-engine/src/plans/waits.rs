//! Why a plan waits for units that do not end by themselves.

use std::collections::BTreeMap;

use jiff::Timestamp;
use redrive_core::{PipelineStatus, PlanStatus, Unit};
use redrive_store::{PlanOutcome, PlanRecord, PlanUnit, Result, Store, UnitKind};

use crate::partitions::control::Control;

/// Pending units that are looked at: the first ones, which are those of the canary.
const UNITS: u32 = 1_000;

/// Why the next partition of a running plan cannot be changed now: its source is not declared here, or the raw sink cannot be
/// read.
pub async fn plan_waits_for_check(
    control: &Control,
    plan: &PlanRecord,
    is_declared: impl Fn(&str) -> bool + Send,
    now: Timestamp,
) -> Result<Option<String>> {
    if plan.status != PlanStatus::Running || !plan.action.needs_check() {
        return Ok(None);
    }
    let store = control.store();
    let next = store.plan_units_page(plan.id, None, plan.last_unit, 1).await?;
    let next = next.iter().filter(|unit| unit.refusal.is_none()).map(|unit| unit.unit_id);
    let found = store.units_by_id(UnitKind::Partition, &next.collect::<Vec<_>>()).await?;
    let found: Vec<_> = found.into_iter().filter_map(PlanUnit::into_partition).collect();
    let mut sources = found.iter().map(|partition| partition.key.source());
    if let Some(source) = sources.find(|source| !is_declared(source)) {
        return Ok(Some(format!(
            "the next partition is of source {source}, which this configuration does not declare; the plan waits for a worker, \
             `serve` or `up` whose configuration declares the source"
        )));
    }
    let refusals = control.plan_refusals(plan.action, found, &plan.operator(now)).await;
    Ok(refusals.unreadable.map(|(_, why)| format!("{why}; the plan tries again every few seconds")))
}

/// What must be done so that pending units of a plan can end, such as resuming their pipeline run. A plan does not decide
/// about units that nobody tries: its canary waits, and says so. `is_served` tells whether the workers of the configuration
/// take units of a queue, source, upload or pipeline.
pub async fn plan_waits_for(
    store: &dyn Store,
    plan: &PlanRecord,
    is_served: impl Fn(UnitKind, &str) -> bool + Send + Sync,
) -> Result<Vec<String>> {
    if plan.counts.pending == 0 {
        return Ok(Vec::new());
    }
    let kind = plan.action.kind();
    let pending = store.plan_units_page(plan.id, Some(PlanOutcome::Pending), 0, UNITS).await?;
    let ids: Vec<i64> = pending.iter().map(|unit| unit.unit_id).collect();
    let (mut of_places, mut of_runs) = (BTreeMap::<String, u64>::new(), BTreeMap::new());
    let (mut paused, mut first_paused) = (0, None);
    for unit in store.units_by_id(kind, &ids).await? {
        let place = match unit {
            PlanUnit::Run(run) => run.queue,
            PlanUnit::Partition(partition) if partition.paused().is_some() => {
                paused += 1;
                first_paused.get_or_insert(Unit::Partition(partition.key));
                continue;
            }
            PlanUnit::Partition(partition) => partition.key.source().to_owned(),
            PlanUnit::Item(item) => item.group.upload,
            PlanUnit::Sample(sample) => {
                *of_runs.entry(sample.run).or_insert(0) += 1;
                continue;
            }
        };
        *of_places.entry(place).or_default() += 1;
    }
    let mut waits: BTreeMap<String, u64> = BTreeMap::new();
    if let Some(unit) = first_paused {
        let todo = match paused {
            1 => format!("an operator paused the partition: `redrive state resume {unit}`"),
            _ => format!(
                "an operator paused the partitions; the first: `redrive state resume {unit}`"
            ),
        };
        waits.insert(todo, paused);
    }
    let runs: Vec<_> = of_runs.keys().copied().collect();
    for run in store.pipeline_runs_by_id(&runs).await? {
        let (id, status, units) = (run.id, run.progress.status, of_runs.get(&run.id));
        let units = units.copied().unwrap_or_default();
        if status != PipelineStatus::Running {
            let todo =
                format!("pipeline run {id} is {}: `redrive pipeline resume {id}`", status.name());
            waits.insert(todo, units);
        }
        *of_places.entry(run.pipeline).or_default() += units;
    }
    if kind == UnitKind::Run {
        for queue in store.paused_queues().await?.into_iter().map(|paused| paused.queue) {
            let todo = format!("queue {queue} is paused: `redrive queue resume {queue}`");
            waits.extend(of_places.get(&queue).map(|units| (todo, *units)));
        }
    }
    let noun = match kind {
        UnitKind::Run => "queue",
        UnitKind::Partition => "source",
        UnitKind::Item => "upload",
        UnitKind::Sample => "pipeline",
    };
    let unserved = of_places.into_iter().filter(|(place, _)| !is_served(kind, place));
    waits.extend(unserved.map(|(place, units)| {
        (format!("no worker of this configuration serves {noun} {place}"), units)
    }));
    let at_least = if pending.len() >= UNITS as usize { "at least " } else { "" };
    let wait = |(todo, units)| {
        let plural = if units == 1 { "" } else { "s" };
        format!("{at_least}{units} pending unit{plural} cannot end, because {todo}")
    };
    Ok(waits.into_iter().map(wait).collect())
}
