//! Attempts over a range of time, for charts.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use redrive_store::{AttemptOutcome, CountPeriod, PeriodCount, UnitKind, start_of};
use serde::Serialize;
use serde_json::Value;

use super::MinuteView;
use crate::words::seconds;

/// The length of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ActivityRange {
    #[default]
    Hour,
    Day,
    Week,
    Month,
}

impl ActivityRange {
    pub const ALL: [Self; 4] = [Self::Hour, Self::Day, Self::Week, Self::Month];
    pub const NAMES: &'static str = "1h, 24h, 7d, 30d";

    pub fn name(self) -> &'static str {
        match self {
            Self::Hour => "1h",
            Self::Day => "24h",
            Self::Week => "7d",
            Self::Month => "30d",
        }
    }

    pub fn in_words(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "24 hours",
            Self::Week => "7 days",
            Self::Month => "30 days",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|range| range.name() == name)
    }

    /// The stored periods that are fine enough.
    pub(crate) fn period(self) -> CountPeriod {
        match self {
            Self::Hour => CountPeriod::Minute,
            Self::Day => CountPeriod::TenMinutes,
            Self::Week | Self::Month => CountPeriod::Hour,
        }
    }

    /// The number of columns, and the seconds of each.
    fn columns(self) -> (i64, i64) {
        match self {
            Self::Hour => (60, 60),
            Self::Day => (144, 600),
            Self::Week => (168, 3_600),
            Self::Month => (120, 6 * 3_600),
        }
    }

    /// When the first column begins; the last one contains now.
    pub(crate) fn since(self, now: Timestamp) -> Timestamp {
        let (columns, length) = self.columns();
        let before = SignedDuration::from_secs((columns - 1) * length);
        start_of(now, length).checked_sub(before).unwrap_or(Timestamp::MIN)
    }
}

/// Where attempts are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivityPlace {
    pub kind: UnitKind,
    /// A queue, a source, an upload, a pipeline, or pipeline and stage such as `menu/translate`.
    pub name: String,
}

impl ActivityPlace {
    /// `queue`, `source`, `upload`, `pipeline` or `stage`.
    pub fn noun(&self) -> &'static str {
        match self.kind {
            UnitKind::Sample if !self.name.contains('/') => "pipeline",
            kind => kind.place(),
        }
    }

    /// Reads what [`Display`](std::fmt::Display) writes, such as `queue:orders`.
    pub fn parse(text: &str) -> Option<Self> {
        let (noun, name) = text.split_once(':').filter(|(_, name)| !name.is_empty())?;
        let kind = match noun {
            "pipeline" => Some(UnitKind::Sample).filter(|_| !name.contains('/')),
            _ => UnitKind::ALL.into_iter().find(|kind| kind.place() == noun),
        }?;
        Some(Self { kind, name: name.to_owned() }).filter(|place| place.noun() == noun)
    }
}

impl std::fmt::Display for ActivityPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.noun(), self.name)
    }
}

/// Attempts in a range of time.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ActivityView {
    /// `1h`, `24h`, `7d` or `30d`.
    pub range: &'static str,
    /// Such as `queue:orders`; null for all places.
    pub place: Option<String>,
    pub since: Timestamp,
    /// The seconds of a column.
    pub column_s: i64,
    /// Attempts that succeeded or skipped their unit.
    pub good: u64,
    /// Attempts that are followed by a retry.
    pub retrying: u64,
    /// Failed attempts without a retry.
    pub failed: u64,
    /// The mean duration of an attempt, in seconds; null without attempts.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<f64>))]
    pub mean_s: Option<Value>,
    /// Columns without attempts are left out.
    pub columns: Vec<ActivityColumnView>,
    #[serde(skip)]
    pub span: ActivityRange,
    #[serde(skip)]
    took: Duration,
}

/// The attempts that ended in one column of a chart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ActivityColumnView {
    pub since: Timestamp,
    pub good: u64,
    pub retrying: u64,
    pub failed: u64,
    #[serde(skip)]
    pub took: Duration,
}

impl ActivityView {
    pub(crate) fn new(
        range: ActivityRange,
        place: Option<&ActivityPlace>,
        counts: &[PeriodCount],
        now: Timestamp,
    ) -> Self {
        let mut view = Self::empty(range, place, now);
        for count in counts {
            let (good, retrying, failed) = match count.outcome {
                AttemptOutcome::Success | AttemptOutcome::Skipped => (count.attempts, 0, 0),
                AttemptOutcome::Retrying => (0, count.attempts, 0),
                AttemptOutcome::Failed => (0, 0, count.attempts),
            };
            let since = count.started_at;
            view.add(ActivityColumnView { since, good, retrying, failed, took: count.took });
        }
        view.mean_s = view.mean().map(seconds);
        view
    }

    /// The last hour of all places, from the minutes of the overview, which are a second old at most.
    pub fn of_minutes(minutes: &[MinuteView], now: Timestamp) -> Self {
        let mut view = Self::empty(ActivityRange::Hour, None, now);
        let mut minutes: Vec<&MinuteView> = minutes.iter().collect();
        minutes.sort_by(|one, other| one.minute.cmp(&other.minute));
        for minute in minutes {
            let Ok(since) = minute.minute.parse() else { continue };
            let MinuteView { good, retrying, failed, .. } = *minute;
            let took = Duration::ZERO;
            view.add(ActivityColumnView { since, good, retrying, failed, took });
        }
        view
    }

    fn empty(range: ActivityRange, place: Option<&ActivityPlace>, now: Timestamp) -> Self {
        Self {
            range: range.name(),
            place: place.map(ToString::to_string),
            since: range.since(now),
            column_s: range.columns().1,
            good: 0,
            retrying: 0,
            failed: 0,
            mean_s: None,
            columns: Vec::new(),
            span: range,
            took: Duration::ZERO,
        }
    }

    /// Adds counts, which come in the order of time.
    fn add(&mut self, count: ActivityColumnView) {
        let since = start_of(count.since, self.column_s);
        if since < self.since {
            return;
        }
        self.good += count.good;
        self.retrying += count.retrying;
        self.failed += count.failed;
        self.took += count.took;
        match self.columns.last_mut().filter(|last| last.since == since) {
            Some(last) => {
                last.good += count.good;
                last.retrying += count.retrying;
                last.failed += count.failed;
                last.took += count.took;
            }
            None => self.columns.push(ActivityColumnView { since, ..count }),
        }
    }

    pub fn attempts(&self) -> u64 {
        self.good + self.retrying + self.failed
    }

    /// The number of columns, with those that have no attempts.
    pub fn width(&self) -> i64 {
        self.span.columns().0
    }

    /// The place of a column, from 0.
    pub fn place_of(&self, column: &ActivityColumnView) -> i64 {
        column.since.duration_since(self.since).as_secs() / self.column_s.max(1)
    }

    /// When a column ends.
    pub fn end_of(&self, column: &ActivityColumnView) -> Timestamp {
        let length = SignedDuration::from_secs(self.column_s);
        column.since.checked_add(length).unwrap_or(Timestamp::MAX)
    }

    pub fn mean(&self) -> Option<Duration> {
        let attempts = u32::try_from(self.attempts()).ok().filter(|attempts| *attempts > 0)?;
        Some(self.took / attempts).filter(|mean| !mean.is_zero())
    }

    /// Attempts in a minute, over the range up to now.
    pub fn per_minute(&self, now: Timestamp) -> f64 {
        let passed = now.duration_since(self.since).as_secs().max(60);
        self.attempts() as f64 * 60.0 / passed as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_read_back_as_they_are_written() {
        for place in ["queue:a:b", "source:ads", "upload:tiles", "pipeline:menu", "stage:menu/a"] {
            let parsed = ActivityPlace::parse(place).map(|place| place.to_string());
            assert_eq!(parsed.as_deref(), Some(place));
        }
        for wrong in ["", "queue", "queue:", "run:1", "pipeline:menu/a", "stage:menu"] {
            assert_eq!(ActivityPlace::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn counts_fall_into_the_columns_of_their_range() {
        let now: Timestamp = "2026-03-31T12:34:56Z".parse().unwrap();
        let count = |at: &str, outcome, attempts| PeriodCount {
            started_at: at.parse().unwrap(),
            outcome,
            attempts,
            took: Duration::from_secs(attempts),
        };
        let counts = [
            count("2026-03-01T12:00:00Z", AttemptOutcome::Success, 1),
            count("2026-03-31T06:00:00Z", AttemptOutcome::Success, 2),
            count("2026-03-31T11:00:00Z", AttemptOutcome::Failed, 4),
            count("2026-03-31T12:00:00Z", AttemptOutcome::Retrying, 8),
            count("2026-03-31T12:00:00Z", AttemptOutcome::Skipped, 16),
        ];
        let view = ActivityView::new(ActivityRange::Month, None, &counts, now);
        let columns: Vec<_> = view
            .columns
            .iter()
            .map(|it| (view.place_of(it), it.good, it.retrying, it.failed))
            .collect();
        assert_eq!(columns, [(118, 2, 0, 4), (119, 16, 8, 0)], "the first count is too old");
        assert_eq!((view.attempts(), view.mean()), (30, Some(Duration::from_secs(1))));
    }
}
