//! The months that a calendar shows.

use jiff::{ToSpan, civil::Date};
use redrive_core::LogicalDate;
use redrive_store::Selection;

use crate::problem::ProblemDetails;

/// What a form offers.
pub(super) const LENGTHS: [&str; 4] = ["1", "2", "3", "6"];

/// Months that follow one another.
pub(super) struct Months {
    first: Date,
    length: i32,
}

impl Months {
    pub(super) fn parse(text: &str) -> Result<Self, ProblemDetails> {
        let day = format!("{text}-01").parse::<LogicalDate>();
        day.map(|day| Self::of(day.date())).map_err(|_| {
            ProblemDetails::bad_request(format!("month: {text:?} is not a month"))
                .allowed("YYYY-MM")
        })
    }

    /// The month of a day.
    pub(super) fn of(day: Date) -> Self {
        Self { first: day.first_of_month(), length: 1 }
    }

    /// So many months, of which this is the last.
    pub(super) fn up_to_here(self, length: i32) -> Self {
        let first = self.first.checked_sub((length - 1).months()).unwrap_or(self.first);
        Self { first, length }
    }

    fn last_day(&self) -> Date {
        let last = self.first.checked_add((self.length - 1).months()).unwrap_or(self.first);
        last.last_of_month()
    }

    /// Each month with its days.
    pub(super) fn each(&self) -> impl Iterator<Item = (String, Vec<Date>)> {
        let firsts =
            (0..self.length).filter_map(|month| self.first.checked_add(month.months()).ok());
        firsts.map(|first| {
            let days =
                (0..first.days_in_month()).filter_map(|day| first.checked_add(day.days()).ok());
            (written(first), days.collect())
        })
    }

    pub(super) fn days(&self) -> impl Iterator<Item = Date> {
        self.each().flat_map(|(_, days)| days)
    }

    /// The part of a selection that is in these months.
    pub(super) fn part_of(&self, selection: &Selection) -> Selection {
        let ends = [self.first, self.last_day()];
        let [first, last] = ends.map(|day| LogicalDate::try_from(day).ok());
        Selection {
            since: selection.since.max(first),
            until: selection.until.or(last).min(last),
            ..selection.clone()
        }
    }

    pub(super) fn before(&self) -> Option<Self> {
        self.moved(-self.length)
    }

    pub(super) fn after(&self) -> Option<Self> {
        self.moved(self.length)
    }

    fn moved(&self, by: i32) -> Option<Self> {
        let first = self.first.checked_add(by.months()).ok()?;
        LogicalDate::try_from(first).ok()?;
        Some(Self { first, length: self.length })
    }

    /// The parameters that name these months: the last, and how many.
    pub(super) fn fields(&self) -> Vec<(&'static str, String)> {
        let length = (self.length > 1).then(|| ("months", self.length.to_string()));
        [("month", written(self.last_day()))].into_iter().chain(length).collect()
    }
}

fn written(day: Date) -> String {
    day.strftime("%Y-%m").to_string()
}

/// `2026-01`, or `2026-01 to 2026-03`.
impl std::fmt::Display for Months {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&written(self.first))?;
        if self.length > 1 { write!(f, " to {}", written(self.last_day())) } else { Ok(()) }
    }
}
