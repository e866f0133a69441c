//! The days of a series that should be good by now and are not (PAR-9).

use redrive_core::{DateRange, LogicalDate, PartitionStatus};
use redrive_store::{PartitionSeries, Result, Store};

/// How many days are read at once: ten years.
const DAYS_PER_READ: usize = 3_660;

/// Days one after another that are not good, in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The days.
    pub days: DateRange,
    /// The status they have; none where there is no entry.
    pub status: Option<PartitionStatus>,
}

/// The gaps of a series among days that should be good.
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
        // The first day of a chunk is not after its last.
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
