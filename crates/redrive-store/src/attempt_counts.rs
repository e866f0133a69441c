//! Attempts by period, place and outcome, for charts over days and months.
//!
//! The ledger has every attempt, but reading a month of it takes as long as the month was busy. So a process counts what
//! it has written in memory by minute, and adds the counts to those of the store from time to time, in periods of three
//! lengths: a chart reads the longest period that is fine enough, and its cost does not depend on its range. Sums over all
//! places of a kind, and over the stages of a pipeline, are rows of their own for the same reason.

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};

use crate::{AttemptOutcome, FromRow, Result, RowReader, UnitKind};

/// The length of the periods of a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CountPeriod {
    Minute,
    TenMinutes,
    Hour,
}

impl CountPeriod {
    pub const ALL: [Self; 3] = [Self::Minute, Self::TenMinutes, Self::Hour];

    pub fn seconds(self) -> i64 {
        match self {
            Self::Minute => 60,
            Self::TenMinutes => 600,
            Self::Hour => 3_600,
        }
    }

    /// Counts of periods that began before are removed: twice the longest chart is kept.
    pub fn kept_since(self, now: Timestamp) -> Timestamp {
        let hours = match self {
            Self::Minute => 2,
            Self::TenMinutes => 2 * 24,
            Self::Hour => 62 * 24,
        };
        now.checked_sub(SignedDuration::from_hours(hours)).unwrap_or(Timestamp::MIN)
    }

    /// The beginning of the period that contains a time.
    pub fn start_of(self, at: Timestamp) -> Timestamp {
        start_of(at, self.seconds())
    }
}

/// The last multiple of some seconds at or before a time.
pub fn start_of(at: Timestamp, seconds: i64) -> Timestamp {
    let periods = at.as_second().div_euclid(seconds.max(1));
    Timestamp::from_second(periods * seconds.max(1)).unwrap_or(at)
}

/// Attempts of one place that ended in the same way within one period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptCount {
    pub period: CountPeriod,
    pub started_at: Timestamp,
    pub kind: UnitKind,
    /// A queue, a source, an upload, a pipeline, or a pipeline with a stage such as `menu/translate`; empty for the sum over
    /// all places of the kind.
    pub place: String,
    pub outcome: AttemptOutcome,
    pub attempts: u64,
    /// The sum of the durations.
    pub took: Duration,
}

/// Which counts to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptCountFilter {
    pub period: CountPeriod,
    /// Periods that begin at this time or later.
    pub since: Timestamp,
    /// All kinds if there is none.
    pub kind: Option<UnitKind>,
    /// As in [`AttemptCount`].
    pub place: String,
}

/// What was counted by one period: when it began, how the attempts ended, their number and the sum of their durations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeriodCount {
    pub started_at: Timestamp,
    pub outcome: AttemptOutcome,
    pub attempts: u64,
    pub took: Duration,
}

impl FromRow for PeriodCount {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok(Self {
            started_at: row.timestamp()?,
            outcome: row.named("outcome", AttemptOutcome::from_name)?,
            attempts: row.count("attempts")?,
            took: Duration::from_micros(row.count("took")?),
        })
    }
}

/// How an attempt ended, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptEnd {
    pub outcome: AttemptOutcome,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
}

/// Attempts at the units of one place by the minute in which they ended, in memory.
#[derive(Debug, Default)]
pub struct MinuteCounts(BTreeMap<(i64, AttemptOutcome), (u64, Duration)>);

impl MinuteCounts {
    pub fn add(&mut self, end: AttemptEnd) {
        let AttemptEnd { outcome, started_at, ended_at } = end;
        let minute = ended_at.as_second().div_euclid(CountPeriod::Minute.seconds());
        let (attempts, took) = self.0.entry((minute, outcome)).or_default();
        *attempts += 1;
        *took += Duration::try_from(ended_at.duration_since(started_at)).unwrap_or_default();
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts back what could not be written.
    pub fn restore(&mut self, earlier: Self) {
        for (key, (attempts, took)) in earlier.0 {
            let sum = self.0.entry(key).or_default();
            sum.0 += attempts;
            sum.1 += took;
        }
    }
}

/// The rows that the counts of some places are stored in. In the order of their key, so that processes that add to the same
/// rows do not wait for each other in a circle.
pub fn attempt_counts<'a>(
    places: impl IntoIterator<Item = (UnitKind, &'a str, &'a MinuteCounts)>,
) -> Vec<AttemptCount> {
    let mut sums: BTreeMap<_, (u64, Duration)> = BTreeMap::new();
    for (kind, place, minutes) in places {
        for (&(minute, outcome), &(attempts, took)) in &minutes.0 {
            let ended = minute.saturating_mul(CountPeriod::Minute.seconds());
            let ended = Timestamp::from_second(ended).unwrap_or_default();
            for period in CountPeriod::ALL {
                for place in sums_of(kind, place) {
                    let key = (period, kind, place, period.start_of(ended), outcome);
                    let sum = sums.entry(key).or_default();
                    sum.0 += attempts;
                    sum.1 += took;
                }
            }
        }
    }
    let row = |((period, kind, place, started_at, outcome), (attempts, took))| AttemptCount {
        period,
        started_at,
        kind,
        place: String::from(place),
        outcome,
        attempts,
        took,
    };
    sums.into_iter().map(row).collect()
}

/// A place and the sums that include it.
fn sums_of(kind: UnitKind, place: &str) -> impl Iterator<Item = &str> {
    let pipeline = place.split_once('/').filter(|_| kind == UnitKind::Sample);
    [Some(place), pipeline.map(|(pipeline, _)| pipeline), Some("")].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_could_not_be_written_are_in_the_next_ones() {
        let add = |minutes: &mut MinuteCounts, second| {
            let [started_at, ended_at] =
                [second - 1, second].map(|it| Timestamp::from_second(it).unwrap_or_default());
            minutes.add(AttemptEnd { outcome: AttemptOutcome::Success, started_at, ended_at });
        };
        let (mut earlier, mut next, mut all) = Default::default();
        [5, 70].into_iter().for_each(|second| add(&mut earlier, second));
        [80, 300].into_iter().for_each(|second| add(&mut next, second));
        [5, 70, 80, 300].into_iter().for_each(|second| add(&mut all, second));
        next.restore(earlier);
        let rows = |minutes| attempt_counts([(UnitKind::Sample, "menu/a", minutes)]);
        assert_eq!(rows(&next), rows(&all));
        let hours = rows(&all).into_iter().filter(|row| row.period == CountPeriod::Hour);
        let hours: Vec<_> = hours.map(|row| (row.place, row.attempts)).collect();
        assert_eq!(hours, ["", "menu", "menu/a"].map(|place| (place.to_owned(), 4)));
    }
}
