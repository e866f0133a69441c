//! The days of a series that should be accepted and are not (PAR-9).

use redrive_core::{DateRange, LogicalDate, PartitionStatus};
use redrive_store::{PartitionSeries, Result, Store};

/// Days read at a time: ten years.
const DAYS_PER_READ: usize = 3_660;

/// Consecutive days that are not accepted and have the same status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    pub days: DateRange,
    /// None if the days have no entry.
    pub status: Option<PartitionStatus>,
}

/// The gaps of a series in a range of days that should be accepted.
pub async fn gaps(
    store: &dyn Store,
    series: &PartitionSeries,
    expected: DateRange,
) -> Result<Vec<Gap>> {
    let mut gaps: Vec<Gap> = Vec::new();
    let mut days = expected.iter().peekable();
    while let Some(first) = days.peek().copied() {
        let chunk: Vec<LogicalDate> = days.by_ref().take(DAYS_PER_READ).collect();
        let last = chunk.last().copied().unwrap_or(first);
        // Always a valid range: the first day of a chunk is not after its last.
        let Ok(range) = DateRange::new(first, last) else { break };
        let mut existing = store.partition_dates(series, range).await?.into_iter().peekable();
        for day in chunk {
            let status = existing.next_if(|(date, _)| *date == day).map(|(_, status)| status);
            if status != Some(PartitionStatus::Success) {
                add(&mut gaps, day, status);
            }
        }
    }
    Ok(gaps)
}

fn add(gaps: &mut Vec<Gap>, day: LogicalDate, status: Option<PartitionStatus>) {
    if let Some(gap) = gaps.last_mut()
        && gap.status == status
        && gap.days.until().next() == Some(day)
        && let Ok(longer) = DateRange::new(gap.days.since(), day)
    {
        gap.days = longer;
    } else if let Ok(days) = DateRange::new(day, day) {
        gaps.push(Gap { days, status });
    }
}
