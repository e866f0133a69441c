//! How much there is of what, over all kinds of work.

use jiff::Timestamp;
use redrive::{PartitionStatus, PipelineRunId, PipelineStatus, Prospect, RunState, SampleStatus};
use redrive_desk::{
    Desk,
    shown::StageCountShown,
    words::{apart, between},
};
use redrive_store::{
    PartitionFilter, PartitionRecord, PipelineRunFilter, Result, SampleFilter, Served,
};

/// Partitions that are read at once.
const PARTITIONS_PAGE: u32 = 1_000;

/// Pipeline runs that are looked at; few go on at a time.
const PIPELINE_RUNS: u32 = 100;

/// Units of all kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Figures {
    /// Wait for a worker.
    pub(super) waiting: u64,
    /// Are with a worker.
    pub(super) running: u64,
    /// Failed, and are tried again.
    pub(super) retrying: u64,
    /// When the first of those is.
    pub(super) next_retry: Option<Timestamp>,
    /// Runs and partitions that failed, and are not tried again.
    pub(super) given_up: u64,
    /// Samples that died.
    pub(super) dead: u64,
}

impl Figures {
    /// As the store has it.
    pub(super) async fn read(desk: &Desk) -> Result<Self> {
        let mut figures = Self::default();
        figures.add_runs(desk).await?;
        figures.add_partitions(desk).await?;
        figures.add_samples(desk).await?;
        Ok(figures)
    }

    async fn add_runs(&mut self, desk: &Desk) -> Result<()> {
        for queue in desk.store().queue_stats().await? {
            for (state, runs) in &queue.runs {
                match state {
                    RunState::Discovered => self.waiting += runs,
                    RunState::Processing => self.running += runs,
                    RunState::WaitingForRetry => self.retrying += runs,
                    RunState::GivenUp => self.given_up += runs,
                    RunState::Passed
                    | RunState::NeedsReview
                    | RunState::Failed
                    | RunState::Cancelled => {}
                }
            }
            let waits = queue.runs.iter().any(|(state, _)| *state == RunState::WaitingForRetry);
            self.note_due(queue.next_due.filter(|_| waits));
        }
        Ok(())
    }

    async fn add_partitions(&mut self, desk: &Desk) -> Result<()> {
        let now = desk.now();
        each_partition(desk, PartitionStatus::Pending, |partition| {
            match partition.work.is_some_and(|work| work.lease_owner.is_some()) {
                true => self.running += 1,
                false => self.waiting += 1,
            }
        })
        .await?;
        each_partition(desk, PartitionStatus::Failed, |partition| {
            match desk.partitions().rules().prospect(&partition, now) {
                Some(Prospect::RetryAt { at, .. }) if partition.paused().is_none() => {
                    self.retrying += 1;
                    self.note_due(Some(at));
                }
                _ => self.given_up += 1,
            }
        })
        .await
    }

    async fn add_samples(&mut self, desk: &Desk) -> Result<()> {
        let filter = PipelineRunFilter { pipeline: None, status: Some(PipelineStatus::Running) };
        let newest = PipelineRunId(i64::MAX);
        let store = desk.store();
        for run in store.pipeline_runs_page(&filter, newest, PIPELINE_RUNS).await? {
            let counts = StageCountShown::read(&run, &**store).await?;
            self.waiting += counts.iter().map(|count| count.ready).sum::<u64>();
            self.running += counts.iter().map(|count| count.in_flight).sum::<u64>();
            self.retrying += counts.iter().map(|count| count.retrying).sum::<u64>();
            let served = Served { pipeline: run.pipeline, stages: run.stages, run: Some(run.id) };
            self.note_due(store.pipeline_outlook(&served).await?.next_due);
        }
        let dead = SampleFilter { status: Some(SampleStatus::Dlq), ..SampleFilter::default() };
        self.dead = store.count_samples(&dead).await?;
        Ok(())
    }

    fn note_due(&mut self, at: Option<Timestamp>) {
        self.next_retry = self.next_retry.into_iter().chain(at).min();
    }

    /// `12 waiting · 3 running · 2 to retry, next in 4s · 1 given up · 1 dead letter`
    pub(super) fn in_words(&self, now: Timestamp) -> String {
        let mut said =
            vec![format!("{} waiting", self.waiting), format!("{} running", self.running)];
        if self.retrying > 0 {
            let next = match self.next_retry {
                Some(at) if between(now, at).is_zero() => ", next now".to_owned(),
                Some(at) => format!(", next in {}", apart(now, at)),
                None => String::new(),
            };
            said.push(format!("{} to retry{next}", self.retrying));
        }
        if self.given_up > 0 {
            said.push(format!("{} given up", self.given_up));
        }
        match self.dead {
            0 => {}
            1 => said.push("1 dead letter".to_owned()),
            many => said.push(format!("{many} dead letters")),
        }
        said.join(" · ")
    }
}

async fn each_partition(
    desk: &Desk,
    status: PartitionStatus,
    mut each: impl FnMut(PartitionRecord),
) -> Result<()> {
    let filter = PartitionFilter { status: Some(status), ..PartitionFilter::default() };
    let mut after = None;
    loop {
        let page = desk.store().partitions_page(&filter, after.as_ref(), PARTITIONS_PAGE).await?;
        let is_last = page.len() < PARTITIONS_PAGE as usize;
        after = page.last().map(|partition| partition.key.clone());
        page.into_iter().for_each(&mut each);
        if is_last {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_there_is_is_said() {
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(Figures::default().in_words(now), "0 waiting · 0 running");
        let at = Some(Timestamp::from_second(4).unwrap());
        let figures =
            Figures { waiting: 12, running: 3, retrying: 2, next_retry: at, given_up: 1, dead: 1 };
        assert_eq!(
            figures.in_words(now),
            "12 waiting · 3 running · 2 to retry, next in 4s · 1 given up · 1 dead letter"
        );
        let figures = Figures { retrying: 1, next_retry: Some(now), dead: 2, ..Figures::default() };
        let said = figures.in_words(now);
        assert_eq!(said, "0 waiting · 0 running · 1 to retry, next now · 2 dead letters");
    }
}
