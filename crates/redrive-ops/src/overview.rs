//! Reads the overview: counts over the whole store.

use std::collections::BTreeMap;

use jiff::Timestamp;
use redrive_core::{PartitionStatus, PipelineRunId, PipelineStatus, RetryForecast};
use redrive_engine::RESERVED_QUEUES;
use redrive_store::{PageLimit, PipelineRunRecord, Result, Selection, Served};

use crate::{
    Ops,
    resources::run_state_name,
    views::{
        DueView, OverviewView, PipelineRunView, PlanView, QueueStatsView, SourceCountView,
        UnitCountView,
    },
    watch::ActivityWindow,
    workers::Unattended,
};

const PIPELINE_RUNS: u32 = 20;

/// The longest list of plans that run or are paused.
const PLANS: u32 = 100;

/// The longest list of gates that are not open.
const GATES: u32 = 20;

/// Failed partitions that are searched for the next retry.
const FAILED_PARTITIONS: u32 = 500;

/// The longest list of due units, and of causes.
pub(crate) const MAX_ROWS: usize = 12;

pub(crate) struct OverviewReader<'a> {
    pub(crate) ops: &'a Ops,
    pub(crate) at: Timestamp,
}

impl OverviewReader<'_> {
    pub(crate) async fn overview(
        &self,
        window: &ActivityWindow,
        version: u64,
    ) -> Result<OverviewView> {
        let store = self.ops.store();
        let queues = self.ops.queue_stats().await?;
        let sources = self.sources().await?;
        let filter = Selection::default();
        let newest = PipelineRunId(i64::MAX);
        let runs = store
            .pipeline_runs_page(&filter, newest, PageLimit::from(PIPELINE_RUNS).newest_first())
            .await?;
        let runs: Vec<PipelineRunView> = runs.iter().map(PipelineRunView::from).collect();
        let mut units = partitions_by_state(&sources);
        units.extend(runs_by_state(&queues));
        let items = store.items_by_status().await?;
        let of_item =
            |(status, count): (redrive_core::ItemStatus, u64)| unit("item", status.name(), count);
        units.extend(items.into_iter().map(of_item));
        units.extend(self.samples_by_state().await?);
        units.retain(|unit| unit.count > 0);
        let running = self.running_pipelines().await?;
        let unattended =
            Unattended { workers: &store.workers().await?, lease_now: store.now(), now: self.at };
        let running_views: Vec<PipelineRunView> =
            running.iter().map(PipelineRunView::from).collect();
        Ok(OverviewView {
            unattended: unattended.find(&queues, &sources, &running_views),
            version,
            at: self.at.to_string(),
            units,
            plans: self.open_plans().await?,
            gates: self.ops.gates(None, true, ("", ""), GATES).await?,
            due: self.due(&queues, running).await?,
            queues,
            sources,
            pipeline_runs: runs,
            activity: window.minutes(),
            causes: self.ops.causes(None, None, None, MAX_ROWS as u32).await?,
        })
    }

    async fn open_plans(&self) -> Result<Vec<PlanView>> {
        let store = self.ops.store();
        let live = store.live_plans(PLANS).await?;
        Ok(live.iter().map(|plan| PlanView::new(plan, Vec::new(), store.now())).collect())
    }

    async fn sources(&self) -> Result<Vec<SourceCountView>> {
        let mut sources: BTreeMap<String, SourceCountView> = BTreeMap::new();
        let declared = self.ops.declared().into_iter().flat_map(|declared| &declared.sources);
        for source in declared {
            sources.entry(source.name.clone()).or_default();
        }
        for counted in self.ops.store().partition_counts().await? {
            let view = sources.entry(counted.source).or_default();
            let count = match counted.status {
                PartitionStatus::Pending => &mut view.pending,
                PartitionStatus::Success => &mut view.success,
                PartitionStatus::Failed => &mut view.failed,
            };
            *count += counted.partitions;
        }
        let named = |(source, view)| SourceCountView { source, ..view };
        Ok(sources.into_iter().map(named).collect())
    }

    /// Pipeline runs store their counts, so no sample is read.
    async fn samples_by_state(&self) -> Result<Vec<UnitCountView>> {
        const PAGE: u32 = 1_000;
        let (mut before, mut sums) = (PipelineRunId(i64::MAX), [0; 4]);
        loop {
            let filter = Selection::default();
            let page = self
                .ops
                .store()
                .pipeline_runs_page(&filter, before, PageLimit::from(PAGE).newest_first())
                .await?;
            for run in &page {
                let tally = run.progress.counts;
                let counts = [tally.pending(), tally.succeeded, tally.skipped, tally.dlq];
                sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
            match page.last() {
                Some(last) if page.len() >= PAGE as usize => before = last.id,
                _ => break,
            }
        }
        let states = ["pending", "succeeded", "skipped", "dlq"];
        Ok(states
            .into_iter()
            .zip(sums)
            .map(|(state, count)| unit("sample", state, count))
            .collect())
    }

    async fn running_pipelines(&self) -> Result<Vec<PipelineRunRecord>> {
        let status = Some(PipelineStatus::Running);
        let filter = Selection { state: status.map(Into::into), ..Selection::default() };
        let newest = PipelineRunId(i64::MAX);
        let limit = PageLimit::from(PIPELINE_RUNS).newest_first();
        self.ops.store().pipeline_runs_page(&filter, newest, limit).await
    }

    async fn due(
        &self,
        queues: &[QueueStatsView],
        running: Vec<PipelineRunRecord>,
    ) -> Result<Vec<DueView>> {
        let of_queue = |queue: &QueueStatsView| {
            let waiting = queue.runs.get("waiting_for_retry").and_then(|it| it.as_u64());
            let what = match waiting.unwrap_or(0) {
                0 => "a run starts".to_owned(),
                1 => "a run is retried".to_owned(),
                many => format!("the first of {many} runs is retried"),
            };
            let at = queue.next_due_at.clone()?;
            Some(DueView { at, kind: "queue", name: queue.queue.clone(), what })
        };
        let mut due: Vec<DueView> = queues.iter().filter_map(of_queue).collect();
        due.extend(self.due_partitions().await?);
        due.extend(self.due_samples(running).await?);
        due.sort();
        due.truncate(MAX_ROWS);
        Ok(due)
    }

    async fn due_partitions(&self) -> Result<Vec<DueView>> {
        let status = Some(PartitionStatus::Failed);
        let filter = Selection { state: status.map(Into::into), ..Selection::default() };
        let page =
            self.ops.store().partitions_page(&filter, None, FAILED_PARTITIONS.into()).await?;
        let (rules, now) = (self.ops.partitions().rules(), self.at);
        let of_partition = |partition: &redrive_store::PartitionRecord| {
            let Some(RetryForecast::RetryAt { at, .. }) = rules.forecast(partition, now) else {
                return None;
            };
            partition.paused().is_none().then(|| DueView {
                at: at.to_string(),
                kind: "partition",
                name: partition.key.to_string(),
                what: format!("due for a retry, after failure {}", partition.attempt_count),
            })
        };
        let mut due: Vec<DueView> = page.iter().filter_map(of_partition).collect();
        due.sort();
        due.truncate(MAX_ROWS);
        Ok(due)
    }

    async fn due_samples(&self, running: Vec<PipelineRunRecord>) -> Result<Vec<DueView>> {
        let mut due = Vec::new();
        for run in running {
            let served = Served {
                pipeline: run.pipeline.clone(),
                stages: run.stages.clone(),
                run: Some(run.id),
            };
            if let Some(at) = self.ops.store().pipeline_backlog(&served).await?.next_due {
                due.push(DueView {
                    at: at.to_string(),
                    kind: "pipeline",
                    name: format!("{} {}", run.pipeline, run.id),
                    what: "a sample is retried".to_owned(),
                });
            }
        }
        Ok(due)
    }
}

fn unit(kind: &'static str, state: &'static str, count: u64) -> UnitCountView {
    UnitCountView { kind, state, count }
}

fn partitions_by_state(sources: &[SourceCountView]) -> Vec<UnitCountView> {
    let sum = |of: fn(&SourceCountView) -> u64| sources.iter().map(of).sum();
    vec![
        unit("partition", "pending", sum(|source| source.pending)),
        unit("partition", "success", sum(|source| source.success)),
        unit("partition", "failed", sum(|source| source.failed)),
    ]
}

/// Deliveries of notifiers are no work; they are shown among the queues.
fn runs_by_state(queues: &[QueueStatsView]) -> Vec<UnitCountView> {
    let mut sums: Vec<UnitCountView> = Vec::new();
    let of_work = queues.iter().filter(|queue| !queue.queue.starts_with(RESERVED_QUEUES));
    for (state, count) in of_work.flat_map(|queue| &queue.counts) {
        let name = run_state_name(*state);
        match sums.iter_mut().find(|sum| sum.state == name) {
            Some(sum) => sum.count += count,
            None => sums.push(unit("run", name, *count)),
        }
    }
    sums
}
