//! The days of a series that should be accepted and are not (PAR-9).

use std::collections::HashSet;

use jiff::Timestamp;
use redrive_core::{DateRange, LogicalDate, PartitionStatus};
use redrive_store::{PartitionSeries, Result, Selection, Store};

use crate::partitions::{consumer::Unreadable, control::PartitionRules};

/// Days read at a time: ten years.
const DAYS_PER_READ: usize = 3_660;

/// Failed partitions read at a time.
const PAGE: u32 = 1_000;

/// Consecutive days that are not accepted, for the same reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    pub days: DateRange,
    pub why: Unreadable,
}

/// The gaps of a series in a range of days that should be accepted. The rules say which failed days are gone.
pub async fn gaps(
    store: &dyn Store,
    series: &PartitionSeries,
    expected: DateRange,
    rules: &PartitionRules,
    now: Timestamp,
) -> Result<Vec<Gap>> {
    let mut gaps: Vec<Gap> = Vec::new();
    let mut days = expected.iter().peekable();
    while let Some(first) = days.peek().copied() {
        let chunk: Vec<LogicalDate> = days.by_ref().take(DAYS_PER_READ).collect();
        let last = chunk.last().copied().unwrap_or(first);
        // Always a valid range: the first day of a chunk is not after its last.
        let Ok(range) = DateRange::new(first, last) else { break };
        let existing = store.partition_dates(series, range).await?;
        let has_failed = existing.iter().any(|(_, status)| *status == PartitionStatus::Failed);
        let gone = match has_failed {
            true => gone_days(store, series, range, rules, now).await?,
            false => HashSet::new(),
        };
        let mut existing = existing.into_iter().peekable();
        for day in chunk {
            let status = existing.next_if(|(date, _)| *date == day).map(|(_, status)| status);
            let why = match status {
                Some(PartitionStatus::Success) => continue,
                None => Unreadable::Missing,
                Some(PartitionStatus::Pending) => Unreadable::Late,
                Some(PartitionStatus::Failed) if gone.contains(&day) => Unreadable::Gone,
                Some(PartitionStatus::Failed) => Unreadable::Failed,
            };
            add(&mut gaps, day, why);
        }
    }
    Ok(gaps)
}

async fn gone_days(
    store: &dyn Store,
    series: &PartitionSeries,
    range: DateRange,
    rules: &PartitionRules,
    now: Timestamp,
) -> Result<HashSet<LogicalDate>> {
    let filter = Selection {
        source: Some(series.source.clone()),
        customer_id: Some(series.customer_id.clone()),
        query_name: Some(series.query_name.clone()),
        since: Some(range.since()),
        until: Some(range.until()),
        state: Some(PartitionStatus::Failed.into()),
        ..Selection::default()
    };
    let (mut gone, mut after) = (HashSet::new(), None);
    loop {
        let page = store.partitions_page(&filter, after.as_ref(), PAGE.into()).await?;
        let Some(last) = page.last() else { return Ok(gone) };
        after = Some(last.key.clone());
        let of_page = page.iter().filter(|it| Unreadable::of(it, rules, now) == Unreadable::Gone);
        gone.extend(of_page.map(|partition| partition.key.logical_date()));
    }
}

fn add(gaps: &mut Vec<Gap>, day: LogicalDate, why: Unreadable) {
    if let Some(gap) = gaps.last_mut()
        && gap.why == why
        && gap.days.until().next() == Some(day)
        && let Ok(longer) = DateRange::new(gap.days.since(), day)
    {
        gap.days = longer;
    } else if let Ok(days) = DateRange::new(day, day) {
        gaps.push(Gap { days, why });
    }
}
