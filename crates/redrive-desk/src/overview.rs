//! How everything stands, read when somebody looks and kept for a moment.
//!
//! Whether anything was written is asked first, and costs next to nothing. Only then are units counted. What
//! was attempted is read once, from where the last look ended.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use redrive_core::{PartitionId, PartitionStatus, PipelineRunId, PipelineStatus, Prospect, Unit};
use redrive_store::{
    Activity, ActivityCount, AttemptOutcome, PartitionFilter, PipelineRunFilter, RecentCause,
    Result, Served, UnitKind,
};
use tokio::sync::Mutex;

use crate::{
    Counted, Desk,
    shown::{
        DueShown, MinuteShown, OverviewShown, PipelineRunShown, QueueStatsShown, RecentCauseShown,
        SourceCountShown, UnitCountShown, run_state_name,
    },
};

/// So long a look is good enough for the next who asks.
const FRESH: SignedDuration = SignedDuration::from_secs(1);

/// So long a look is good while nothing is written: what is due, and what was an hour ago, changes by itself.
const STALE: SignedDuration = SignedDuration::from_secs(60);

/// How far back attempts are shown.
const WINDOW: SignedDuration = SignedDuration::from_hours(1);

/// The most attempts that a first look reads.
const MAX_ATTEMPTS: u32 = 200_000;

/// Runs of pipelines that are shown.
const PIPELINE_RUNS: u32 = 20;

/// Failed partitions that are looked through for the next retry.
const FAILED_PARTITIONS: u32 = 500;

/// Things that are due, and causes, that are shown.
const SHOWN: usize = 12;

/// Looks at a store for all who ask.
pub struct Watch {
    desk: Desk,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    pulse: Option<u64>,
    looked: Option<Timestamp>,
    /// When it was last read, and not only looked whether there is anything new.
    read: Option<Timestamp>,
    overview: Option<Arc<OverviewShown>>,
    ledger_end: i64,
    minutes: BTreeMap<(Timestamp, UnitKind), Minute>,
    causes: HashMap<(UnitKind, String, String), RecentCause>,
    /// Whether what was there before is known.
    begun: bool,
    /// Since then.
    counted: Counted,
}

#[derive(Debug, Clone, Copy, Default)]
struct Minute {
    good: u64,
    retrying: u64,
    failed: u64,
}

impl Watch {
    /// Looks at the store of a desk.
    pub fn new(desk: Desk) -> Self {
        Self { desk, seen: Mutex::default() }
    }

    /// Begins to count: what is attempted from now on.
    pub async fn begin(&self) -> Result<()> {
        let mut seen = self.seen.lock().await;
        let activity = self.desk.store().activity(seen.ledger_end, MAX_ATTEMPTS).await?;
        seen.take_in(activity, self.desk.now());
        Ok(())
    }

    /// How everything stands, at most two seconds ago. Whoever asks while somebody looks waits for that look.
    pub async fn overview(&self) -> Result<Arc<OverviewShown>> {
        let mut seen = self.seen.lock().await;
        let now = self.desk.now();
        if let (Some(overview), Some(looked)) = (&seen.overview, seen.looked)
            && (SignedDuration::ZERO..FRESH).contains(&now.duration_since(looked))
        {
            return Ok(Arc::clone(overview));
        }
        let pulse = self.desk.store().pulse().await?;
        let age = seen.read.map(|read| now.duration_since(read));
        let is_recent = age.is_some_and(|age| (SignedDuration::ZERO..STALE).contains(&age));
        let is_same = is_recent && seen.pulse == Some(pulse);
        if let Some(overview) = seen.overview.clone().filter(|_| is_same) {
            seen.looked = Some(now);
            return Ok(overview);
        }
        let activity = self.desk.store().activity(seen.ledger_end, MAX_ATTEMPTS).await?;
        seen.take_in(activity, now);
        let version = seen.overview.as_ref().map_or(1, |overview| overview.version + 1);
        let overview = Arc::new(self.look(&seen, version).await?);
        seen.pulse = Some(pulse);
        seen.looked = Some(now);
        seen.read = Some(now);
        seen.overview = Some(Arc::clone(&overview));
        Ok(overview)
    }

    /// How everything stands, and what was counted since the watch began.
    pub async fn counted(&self) -> Result<(Arc<OverviewShown>, Counted)> {
        let overview = self.overview().await?;
        Ok((overview, self.seen.lock().await.counted.clone()))
    }

    async fn look(&self, seen: &Seen, version: u64) -> Result<OverviewShown> {
        let store = self.desk.store();
        let queues = self.desk.queue_stats().await?;
        let sources = self.sources().await?;
        let filter = PipelineRunFilter::default();
        let newest = PipelineRunId(i64::MAX);
        let runs = store.pipeline_runs_page(&filter, newest, PIPELINE_RUNS).await?;
        let runs: Vec<PipelineRunShown> = runs.iter().map(PipelineRunShown::from).collect();
        let mut units = partitions_by_state(&sources);
        units.extend(runs_by_state(&queues));
        let items = store.items_by_status().await?;
        let of_item =
            |(status, count): (redrive_core::ItemStatus, u64)| unit("item", status.name(), count);
        units.extend(items.into_iter().map(of_item));
        units.extend(self.samples_by_state().await?);
        units.retain(|unit| unit.count > 0);
        Ok(OverviewShown {
            version,
            at: self.desk.now().to_string(),
            units,
            due: self.due(&queues).await?,
            queues,
            sources,
            pipeline_runs: runs,
            activity: seen.minutes(),
            causes: self.causes(seen).await?,
        })
    }

    async fn sources(&self) -> Result<Vec<SourceCountShown>> {
        let mut sources: BTreeMap<String, SourceCountShown> = BTreeMap::new();
        let declared = self.desk.declared().into_iter().flat_map(|declared| &declared.sources);
        for source in declared {
            sources.entry(source.name.clone()).or_default();
        }
        for counted in self.desk.store().partition_counts().await? {
            let shown = sources.entry(counted.source).or_default();
            let count = match counted.status {
                PartitionStatus::Pending => &mut shown.pending,
                PartitionStatus::Success => &mut shown.success,
                PartitionStatus::Failed => &mut shown.failed,
            };
            *count += counted.partitions;
        }
        let named = |(source, shown)| SourceCountShown { source, ..shown };
        Ok(sources.into_iter().map(named).collect())
    }

    /// Every run of a pipeline has its counts, so no sample is read.
    async fn samples_by_state(&self) -> Result<Vec<UnitCountShown>> {
        const PAGE: u32 = 1_000;
        let (mut before, mut sums) = (PipelineRunId(i64::MAX), [0; 4]);
        loop {
            let filter = PipelineRunFilter::default();
            let page = self.desk.store().pipeline_runs_page(&filter, before, PAGE).await?;
            for run in &page {
                let tally = run.progress.tally;
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

    async fn causes(&self, seen: &Seen) -> Result<Vec<RecentCauseShown>> {
        let mut shown = Vec::new();
        for cause in seen.causes() {
            shown.push(RecentCauseShown {
                kind: cause.kind.name(),
                fingerprint: cause.fingerprint.clone(),
                code: cause.code.clone(),
                message: cause.message.clone(),
                unit: self.unit_of(cause).await?,
                attempts: cause.attempts,
                last_at: cause.last_at.to_string(),
            });
        }
        Ok(shown)
    }

    /// The ledger has the number of a partition, people know its key.
    async fn unit_of(&self, cause: &RecentCause) -> Result<String> {
        let id = cause.unit_id;
        if cause.kind == UnitKind::Partition {
            let before = PartitionId(id.saturating_sub(1));
            let found = self.desk.store().partitions_by_id(before, 1).await?.pop();
            if let Some(found) = found.filter(|found| found.id.0 == id) {
                return Ok(Unit::Partition(found.key).to_string());
            }
        }
        Ok(format!("{}:{id}", cause.kind.name()))
    }

    async fn due(&self, queues: &[QueueStatsShown]) -> Result<Vec<DueShown>> {
        let of_queue = |queue: &QueueStatsShown| {
            let waiting = queue.runs.get("waiting_for_retry").and_then(|it| it.as_u64());
            let what = match waiting.unwrap_or(0) {
                0 => "a run may begin".to_owned(),
                1 => "a run is tried again".to_owned(),
                many => format!("the first of {many} runs is tried again"),
            };
            let at = queue.next_due_at.clone()?;
            Some(DueShown { at, kind: "queue", name: queue.queue.clone(), what })
        };
        let mut due: Vec<DueShown> = queues.iter().filter_map(of_queue).collect();
        due.extend(self.due_partitions().await?);
        due.extend(self.due_samples().await?);
        due.sort();
        due.truncate(SHOWN);
        Ok(due)
    }

    async fn due_partitions(&self) -> Result<Vec<DueShown>> {
        let status = Some(PartitionStatus::Failed);
        let filter = PartitionFilter { status, ..PartitionFilter::default() };
        let page = self.desk.store().partitions_page(&filter, None, FAILED_PARTITIONS).await?;
        let (rules, now) = (self.desk.partitions().rules(), self.desk.now());
        let of_partition = |partition: &redrive_store::PartitionRecord| {
            let Some(Prospect::RetryAt { at, .. }) = rules.prospect(partition, now) else {
                return None;
            };
            partition.paused().is_none().then(|| DueShown {
                at: at.to_string(),
                kind: "partition",
                name: partition.key.to_string(),
                what: format!("retried, after failure {}", partition.attempt_count),
            })
        };
        let mut due: Vec<DueShown> = page.iter().filter_map(of_partition).collect();
        due.sort();
        due.truncate(SHOWN);
        Ok(due)
    }

    async fn due_samples(&self) -> Result<Vec<DueShown>> {
        let status = Some(PipelineStatus::Running);
        let filter = PipelineRunFilter { pipeline: None, status };
        let newest = PipelineRunId(i64::MAX);
        let page = self.desk.store().pipeline_runs_page(&filter, newest, PIPELINE_RUNS).await?;
        let mut due = Vec::new();
        for run in page {
            let served = Served {
                pipeline: run.pipeline.clone(),
                stages: run.stages.clone(),
                run: Some(run.id),
            };
            if let Some(at) = self.desk.store().pipeline_outlook(&served).await?.next_due {
                due.push(DueShown {
                    at: at.to_string(),
                    kind: "pipeline",
                    name: format!("{} {}", run.pipeline, run.id),
                    what: "a sample is tried again".to_owned(),
                });
            }
        }
        Ok(due)
    }
}

impl Seen {
    fn take_in(&mut self, activity: Activity, now: Timestamp) {
        if std::mem::replace(&mut self.begun, true) {
            self.counted.take_in(&activity);
        }
        self.ledger_end = activity.end;
        for ActivityCount { kind, outcome, minute, attempts, .. } in activity.counts {
            let counted = self.minutes.entry((minute, kind)).or_default();
            let count = match outcome {
                AttemptOutcome::Success | AttemptOutcome::Skipped => &mut counted.good,
                AttemptOutcome::Retrying => &mut counted.retrying,
                AttemptOutcome::Failed => &mut counted.failed,
            };
            *count += attempts;
        }
        for cause in activity.causes {
            let key = (cause.kind, cause.fingerprint.clone(), cause.code.clone());
            let before = self.causes.get(&key).map_or(0, |known| known.attempts);
            self.causes.insert(key, RecentCause { attempts: before + cause.attempts, ..cause });
        }
        let since = now.checked_sub(WINDOW).unwrap_or(Timestamp::MIN);
        self.minutes.retain(|(minute, _), _| *minute >= since);
        self.causes.retain(|_, cause| cause.last_at >= since);
    }

    fn minutes(&self) -> Vec<MinuteShown> {
        let shown = |((minute, kind), counted): (&(Timestamp, UnitKind), &Minute)| MinuteShown {
            minute: minute.to_string(),
            kind: kind.name(),
            good: counted.good,
            retrying: counted.retrying,
            failed: counted.failed,
        };
        self.minutes.iter().map(shown).collect()
    }

    fn causes(&self) -> Vec<&RecentCause> {
        let mut causes: Vec<&RecentCause> = self.causes.values().collect();
        causes.sort_by(|one, other| {
            (other.attempts, other.last_at).cmp(&(one.attempts, one.last_at))
        });
        causes.truncate(SHOWN);
        causes
    }
}

fn unit(kind: &'static str, state: &'static str, count: u64) -> UnitCountShown {
    UnitCountShown { kind, state, count }
}

fn partitions_by_state(sources: &[SourceCountShown]) -> Vec<UnitCountShown> {
    let sum = |of: fn(&SourceCountShown) -> u64| sources.iter().map(of).sum();
    vec![
        unit("partition", "pending", sum(|source| source.pending)),
        unit("partition", "success", sum(|source| source.success)),
        unit("partition", "failed", sum(|source| source.failed)),
    ]
}

fn runs_by_state(queues: &[QueueStatsShown]) -> Vec<UnitCountShown> {
    let mut sums: Vec<UnitCountShown> = Vec::new();
    for (state, count) in queues.iter().flat_map(|queue| &queue.counts) {
        let name = run_state_name(*state);
        match sums.iter_mut().find(|sum| sum.state == name) {
            Some(sum) => sum.count += count,
            None => sums.push(unit("run", name, *count)),
        }
    }
    sums
}
