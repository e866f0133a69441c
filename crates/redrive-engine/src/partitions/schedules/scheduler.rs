//! Creates the partitions of a source when their days become due.
//!
//! The scheduler creates every due day that has no entry. Creating a day is idempotent, so several workers may
//! run the same schedule, and days that were missed while no worker ran are created by the next one. Recent days
//! use the fresh lane and older days the backfill lane, so that history does not delay today's data.

use std::{collections::HashSet, sync::Arc, time::Duration};

use jiff::{Timestamp, ToSpan};
use redrive_core::{DateRange, InvalidUnit, LogicalDate, PartitionKey};
use redrive_store::{
    AuditContext, Lane, NamedPartition, Operator, PartitionAction, PartitionChange,
    PartitionSeries, Result, Store,
};

use crate::partitions::schedules::calendar::{DailyCalendar, FRESH_DAYS};
use redrive_retry::{Clock, Stop};

/// The actor and command in the journal.
const ACTOR: &str = "schedule";

/// Days read and created at a time.
const DAYS_PER_BATCH: i64 = 500;

/// The longest sleep. The system clock may be set, so the scheduler reads it at least this often.
const MAX_SLEEP: Duration = Duration::from_secs(60);

/// A partition for every day, customer and query, created when the data of the day is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaySchedule {
    pub customers: Vec<String>,
    pub queries: Vec<String>,
    pub calendar: DailyCalendar,
}

pub(crate) struct Scheduler {
    pub(crate) source: String,
    pub(crate) schedule: DaySchedule,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// The last day up to which this process knows that every partition exists.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ScheduleProgress(Option<LogicalDate>);

impl Scheduler {
    /// Runs until stopped. Every write is atomic, so the scheduler may be stopped at any point.
    pub(crate) async fn run(self, mut stop: Stop) {
        tokio::select! {
            biased;
            () = stop.stopped() => {}
            () = self.run_forever() => {}
        }
    }

    async fn run_forever(&self) {
        let mut progress = ScheduleProgress::default();
        loop {
            if let Err(error) = self.tick(&mut progress).await {
                tracing::warn!(
                    source = self.source,
                    error = &error as &dyn std::error::Error,
                    "cannot create the scheduled partitions; trying again"
                );
            }
            let sleep = self.schedule.calendar.until_next(self.clock.now()).min(MAX_SLEEP);
            // The lower bound prevents a busy loop just before a day becomes due.
            tokio::time::sleep(sleep.max(Duration::from_millis(10))).await;
        }
    }

    /// Creates the due partitions that have no entry. Returns how many were created.
    pub(crate) async fn tick(&self, progress: &mut ScheduleProgress) -> Result<u64> {
        let now = self.clock.now();
        let Some(due) = self.schedule.calendar.due(now) else { return Ok(0) };
        let last = due.until();
        let first = progress.0.map_or(Some(due.since()), LogicalDate::next);
        let Some(first) = first.filter(|first| *first <= last) else { return Ok(0) };
        let fresh = days_before(last, FRESH_DAYS - 1).max(first);
        let mut created = self.create(fresh, last, Lane::Fresh, now).await?;
        if first < fresh {
            created += self.create(first, days_before(fresh, 1), Lane::Backfill, now).await?;
        }
        progress.0 = Some(last);
        if created > 0 {
            tracing::info!(source = self.source, partitions = created, until = %last, "created scheduled partitions");
        }
        Ok(created)
    }

    /// Creates the missing days of every customer and query, in batches.
    async fn create(
        &self,
        first: LogicalDate,
        last: LogicalDate,
        lane: Lane,
        now: Timestamp,
    ) -> Result<u64> {
        let mut created = 0;
        for customer_id in &self.schedule.customers {
            for query_name in &self.schedule.queries {
                let series = PartitionSeries {
                    source: self.source.clone(),
                    customer_id: customer_id.clone(),
                    query_name: query_name.clone(),
                };
                for range in batches(first, last) {
                    created += self.create_series(&series, range, lane, now).await?;
                }
            }
        }
        Ok(created)
    }

    async fn create_series(
        &self,
        series: &PartitionSeries,
        range: DateRange,
        lane: Lane,
        now: Timestamp,
    ) -> Result<u64> {
        let entries = self.store.partition_dates(series, range).await?;
        let entries: HashSet<LogicalDate> = entries.into_iter().map(|(day, _)| day).collect();
        let missing = range.iter().filter(|day| !entries.contains(day));
        let missing: std::result::Result<Vec<NamedPartition>, InvalidUnit> =
            missing.map(|day| key(series, day).map(NamedPartition::from)).collect();
        let missing = match missing {
            Ok(missing) if missing.is_empty() => return Ok(0),
            Ok(missing) => missing,
            Err(error) => {
                tracing::error!(source = self.source, %error, "cannot create the scheduled partitions: a customer or query is not valid in a key");
                return Ok(0);
            }
        };
        let action = PartitionAction::Backfill { force_pending: false, lane };
        let by = Operator { actor: ACTOR.to_owned(), at: now, reason: None };
        let audit = AuditContext { by, command: ACTOR.to_owned(), filter: None, flags: Vec::new() };
        let changes = self.store.change_partitions(&action, &missing, &audit).await?;
        let done = changes.iter().filter(|change| matches!(change, PartitionChange::Done(_)));
        Ok(done.count() as u64)
    }
}

fn key(
    series: &PartitionSeries,
    day: LogicalDate,
) -> std::result::Result<PartitionKey, InvalidUnit> {
    PartitionKey::new(&series.source, &series.customer_id, &series.query_name, day)
}

/// Splits a range of days into batches, in order.
fn batches(first: LogicalDate, last: LogicalDate) -> impl Iterator<Item = DateRange> {
    let mut next = Some(first).filter(|first| *first <= last);
    std::iter::from_fn(move || {
        let since = next?;
        let until = days_after(since, DAYS_PER_BATCH - 1).min(last);
        next = until.next().filter(|day| *day <= last);
        DateRange::new(since, until).ok()
    })
}

fn days_before(day: LogicalDate, days: i64) -> LogicalDate {
    let before = day.date().checked_sub(days.days()).ok();
    before.and_then(|date| date.try_into().ok()).unwrap_or(LogicalDate::MIN)
}

fn days_after(day: LogicalDate, days: i64) -> LogicalDate {
    let after = day.date().checked_add(days.days()).ok();
    after.and_then(|date| date.try_into().ok()).unwrap_or(LogicalDate::MAX)
}
