//! The retry daemon (DMN): retries failed partitions when they are due.
//!
//! The daemon reads all of its state from the store and keeps none between ticks, so it can be killed and
//! restarted at any point. It changes partitions through [`Control`], like any operator: a change applies only
//! if the partition is still as it was read, so of several daemons exactly one retries a partition. The daemon
//! overrides neither terminal marks nor policy limits. When a limit makes a partition terminal, the daemon
//! writes one journal entry for each attempt count.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, TryStreamExt, stream};
use jiff::{Timestamp, tz::TimeZone};
use redrive_core::{
    HumanDuration, PartitionKey, PartitionStatus, RetryForecast, TerminalReason, Unit,
};
use redrive_store::{
    AuditContext, Lane, Operator, PartitionAction, PartitionRecord, Result, Selection,
    partition_giveup,
};
use tokio::time::MissedTickBehavior;

use crate::partitions::{
    control::{ChangeOutcome, Control, PartitionCommand, PartitionOutcome, RunMode},
    schedules::calendar::FRESH_DAYS,
};
use redrive_retry::{Clock, Stop, SystemClock};

/// The default interval between two ticks.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(60);

/// Partitions read at a time.
const PAGE: u32 = 1_000;

/// Concurrent batches. A store commits concurrent writes in one transaction.
const CONCURRENT_BATCHES: usize = 32;

pub struct Daemon {
    control: Control,
    clock: Arc<dyn Clock>,
    name: String,
    mode: RunMode,
}

/// What one tick of the daemon found and did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DaemonTick {
    /// All failed partitions. The other counts add up to this one.
    pub failed: u64,
    /// In a dry run: due, and would be retried.
    pub retried: u64,
    /// Not due yet.
    pub waiting: u64,
    /// Paused, or marked terminal by an operator.
    pub skipped: u64,
    /// Made terminal by a limit of their policy.
    pub given_up: u64,
    /// Due, but changed by another daemon or an operator since they were read.
    pub conflicts: u64,
}

struct DuePartition {
    partition: PartitionRecord,
    /// The delay that the policy asked for.
    delay: Duration,
}

/// Due partitions of one source, customer, query and lane.
struct RetryBatch {
    lane: Lane,
    due: Vec<DuePartition>,
}

impl Daemon {
    /// `name` is the actor in the journal.
    pub fn new(control: Control, name: impl Into<String>) -> Self {
        let clock = Arc::new(SystemClock);
        Self { control, clock, name: name.into(), mode: RunMode::Real }
    }

    /// Replaces the system clock, for tests.
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    pub fn with_mode(self, mode: RunMode) -> Self {
        Self { mode, ..self }
    }

    /// Ticks at once and then at every interval, until stopped. A stop interrupts a tick: every change is
    /// atomic, so a partial tick leaves nothing to clean up.
    pub async fn run(&self, interval: Duration, mut stop: Stop) {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stop.stopped() => return,
                _ = ticks.tick() => {}
            }
            tokio::select! {
                biased;
                () = stop.stopped() => return,
                ticked = self.tick() => self.log_tick(ticked),
            }
        }
    }

    fn log_tick(&self, ticked: Result<DaemonTick>) {
        match ticked {
            Ok(tick) => tracing::debug!(
                failed = tick.failed,
                retried = tick.retried,
                waiting = tick.waiting,
                given_up = tick.given_up,
                "checked failed partitions"
            ),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, "cannot check failed partitions; the next tick tries again");
            }
        }
    }

    /// Checks every failed partition once, and logs each retry.
    pub async fn tick(&self) -> Result<DaemonTick> {
        self.tick_reporting(|retried, delay| self.log_retry(&retried, delay)).await
    }

    /// Checks every failed partition once. `on_retry` is called for each that was retried, or in a dry run would be,
    /// with the delay that its policy asked for.
    pub async fn tick_reporting(
        &self,
        mut on_retry: impl FnMut(PartitionOutcome, Duration) + Send,
    ) -> Result<DaemonTick> {
        let now = self.clock.now();
        let filter =
            Selection { state: Some(PartitionStatus::Failed.into()), ..Default::default() };
        let (mut tick, mut after) = (DaemonTick::default(), None);
        loop {
            let store = self.control.store();
            let page = store.partitions_page(&filter, after.as_ref(), PAGE.into()).await?;
            let Some(last) = page.last() else { return Ok(tick) };
            after = Some(last.key.clone());
            let is_last = page.len() < PAGE as usize;
            let (due, given_up) = self.classify(page, now, &mut tick);
            self.record_give_ups(&given_up, now).await?;
            redrive_store::failpoint!("engine.daemon.told");
            for (retried, delay) in self.retry(due, now, &mut tick).await? {
                on_retry(retried, delay);
            }
            redrive_store::failpoint!("engine.daemon.retried");
            if is_last {
                return Ok(tick);
            }
        }
    }

    /// The partitions that are due, and those that a policy limit has made terminal. Counts the others.
    fn classify(
        &self,
        page: Vec<PartitionRecord>,
        now: Timestamp,
        tick: &mut DaemonTick,
    ) -> (Vec<DuePartition>, Vec<(PartitionRecord, TerminalReason)>) {
        let (mut due, mut given_up) = (Vec::new(), Vec::new());
        tick.failed += page.len() as u64;
        for partition in page {
            let forecast = self.control.rules().forecast(&partition, now);
            match forecast.filter(|_| partition.paused().is_none()) {
                None | Some(RetryForecast::Terminal { reason: TerminalReason::Marked }) => {
                    tick.skipped += 1;
                }
                Some(RetryForecast::Terminal { reason }) => {
                    tick.given_up += 1;
                    given_up.push((partition, reason));
                }
                Some(forecast @ RetryForecast::RetryAt { delay, .. }) if forecast.is_due(now) => {
                    due.push(DuePartition { partition, delay });
                }
                Some(RetryForecast::RetryAt { .. }) => tick.waiting += 1,
            }
        }
        (due, given_up)
    }

    async fn record_give_ups(
        &self,
        given_up: &[(PartitionRecord, TerminalReason)],
        now: Timestamp,
    ) -> Result<()> {
        if given_up.is_empty() || self.mode == RunMode::DryRun {
            return Ok(());
        }
        let entry = |(partition, reason): &(PartitionRecord, TerminalReason)| {
            partition_giveup(&partition.key, partition.attempt_count, *reason, &self.name, now)
        };
        let entries: Vec<_> = given_up.iter().map(entry).collect();
        let new = self.control.store().append_journal(&entries).await?;
        for ((partition, reason), _) in given_up.iter().zip(new).filter(|(_, new)| *new) {
            tracing::warn!(
                partition = unit_name(&partition.key),
                attempt_count = partition.attempt_count,
                reason = reason.name(),
                "gave up"
            );
        }
        Ok(())
    }

    /// Retries what is due. Returns each partition that was retried with its delay.
    async fn retry(
        &self,
        due: Vec<DuePartition>,
        now: Timestamp,
        tick: &mut DaemonTick,
    ) -> Result<Vec<(PartitionOutcome, Duration)>> {
        let batches: Vec<Vec<(PartitionOutcome, Duration)>> = stream::iter(batches(due, now))
            .map(|batch| self.retry_batch(batch, now))
            .buffer_unordered(CONCURRENT_BATCHES)
            .try_collect()
            .await?;
        let is_done =
            |(outcome, _): &(PartitionOutcome, _)| matches!(outcome.change, ChangeOutcome::Done(_));
        let (retried, conflicts): (Vec<_>, Vec<_>) =
            batches.into_iter().flatten().partition(is_done);
        tick.retried += retried.len() as u64;
        tick.conflicts += conflicts.len() as u64;
        for (outcome, _) in conflicts {
            tracing::debug!(
                partition = unit_name(&outcome.key),
                attempt_count = outcome.attempt_count,
                "not retried: the partition changed since it was read"
            );
        }
        Ok(retried)
    }

    async fn retry_batch(
        &self,
        batch: RetryBatch,
        now: Timestamp,
    ) -> Result<Vec<(PartitionOutcome, Duration)>> {
        let Some(command) = self.command(&batch, now) else { return Ok(Vec::new()) };
        let (partitions, delays): (Vec<_>, Vec<_>) =
            batch.due.into_iter().map(|due| (due.partition, due.delay)).unzip();
        let outcomes = self.control.change(&command, partitions, self.mode).await?;
        Ok(outcomes.into_iter().zip(delays).collect())
    }

    fn log_retry(&self, retried: &PartitionOutcome, delay: Duration) {
        let (partition, attempt_count) = (unit_name(&retried.key), retried.attempt_count);
        // Whole seconds are enough for a log.
        let delay = HumanDuration::from(Duration::from_secs(delay.as_secs())).to_string();
        match self.mode {
            RunMode::Real => tracing::info!(partition, attempt_count, delay, "retrying"),
            RunMode::DryRun => tracing::info!(partition, attempt_count, delay, "would retry"),
        }
    }

    /// The command for a batch: `state retry --force` for its source, customer and query.
    fn command(&self, batch: &RetryBatch, now: Timestamp) -> Option<PartitionCommand> {
        let key = &batch.due.first()?.partition.key;
        let filter = Selection {
            source: Some(key.source().to_owned()),
            customer_id: Some(key.customer_id().to_owned()),
            query_name: Some(key.query_name().to_owned()),
            ..Selection::default()
        };
        let audit = AuditContext {
            by: Operator { actor: self.name.clone(), at: now, reason: None },
            command: "daemon".to_owned(),
            filter: Some(filter.to_json().to_string()),
            flags: vec!["--force".to_owned()],
        };
        let action = PartitionAction::Retry { clear_terminal: false, lane: batch.lane };
        Some(PartitionCommand::new(action, audit).forced())
    }
}

/// Groups due partitions by series and lane. Relies on pages being sorted by key.
fn batches(due: Vec<DuePartition>, now: Timestamp) -> Vec<RetryBatch> {
    let mut batches: Vec<RetryBatch> = Vec::new();
    for due in due {
        let (lane, key) = (lane_of(&due.partition.key, now), &due.partition.key);
        let fits = |batch: &&mut RetryBatch| {
            let last = batch.due.last().map(|due| &due.partition.key);
            batch.lane == lane && last.is_some_and(|last| same_series(last, key))
        };
        // A series changes its lane at most once, where dates become fresh.
        match batches.last_mut().filter(fits) {
            Some(batch) => batch.due.push(due),
            None => batches.push(RetryBatch { lane, due: vec![due] }),
        }
    }
    batches
}

fn same_series(a: &PartitionKey, b: &PartitionKey) -> bool {
    (a.source(), a.customer_id(), a.query_name()) == (b.source(), b.customer_id(), b.query_name())
}

fn lane_of(key: &PartitionKey, now: Timestamp) -> Lane {
    let today = now.to_zoned(TimeZone::UTC).date();
    let age = key.logical_date().date().until((jiff::Unit::Day, today));
    let is_old = age.is_ok_and(|age| i64::from(age.get_days()) > FRESH_DAYS);
    if is_old { Lane::Backfill } else { Lane::Fresh }
}

fn unit_name(key: &PartitionKey) -> String {
    Unit::Partition(key.clone()).to_string()
}
