//! Counts runs by state without reading all runs each time.
//!
//! A run changes its state when it is submitted, claimed, finished or released, or by an operator's
//! action. A new run has a higher id than all others. A claimed run is among the held ones. A
//! finish writes a ledger row, and every other change writes a journal entry. So the runs that may
//! have changed since the last count are known, and only the stretches of ids (blocks of 1,024)
//! that contain them are counted again. Nothing is written for the counts, and changes by other
//! processes are seen as well. Pruning is the exception, because it does not record which runs it
//! removed: while a prune is active, everything is counted.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
};

use redrive_core::{RunState, RunStatus};
use redrive_store::{Error, FromRow, QueueCount, ReadColumn, Result, RowReader};
use rusqlite::{Connection, Row, params};

use crate::{
    columns::{read_records, read_rows},
    error::Doing,
    queries,
};

const DOING: &str = "counting runs";

/// Ids per stretch; the queries contain the same number.
const STRETCH: i64 = 1_024;

/// The result of the last count.
#[derive(Default)]
pub(crate) struct RunCounts {
    /// Queue names with their index.
    queues: HashMap<String, usize>,
    stretches: BTreeMap<i64, Vec<StretchCount>>,
    /// The stretches that contain held runs.
    held: BTreeSet<i64>,
    /// The number of active prunes.
    prunes: i64,
    seen: ChangePositions,
}

/// The number of runs of a stretch in one queue and state.
#[derive(Clone, Copy, PartialEq, Eq)]
struct StretchCount {
    /// The index of the queue.
    queue: usize,
    state: RunState,
    runs: u64,
}

/// The last ids of the tables that record changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ChangePositions {
    runs: i64,
    ledger: i64,
    journal: i64,
}

impl FromRow for ChangePositions {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok(Self { runs: row.get()?, ledger: row.get()?, journal: row.get()? })
    }
}

impl RunCounts {
    /// The current counts. They are consistent if the connection is in a transaction. If this call
    /// fails, the next call reads everything that this one would have read.
    pub(crate) fn look(&mut self, connection: &Connection) -> Result<Vec<QueueCount>> {
        let mut ends = read_records(connection, DOING, queries::RUN_ENDS, [])?;
        let ends: ChangePositions = ends.pop().unwrap_or_default();
        let held = read_rows(connection, DOING, queries::HELD_STRETCHES, [], |row| row.get())?;
        let held: BTreeSet<i64> = held.into_iter().collect();
        let since = params![self.seen.journal, ends.journal];
        let told: Vec<bool> =
            read_rows(connection, DOING, queries::PRUNES, since, |row| row.get())?;
        let begun = told.iter().map(|has_begun| if *has_begun { 1 } else { -1 }).sum::<i64>();
        let prunes = self.prunes + begun;
        // After a long time, finding the changes costs more than counting everything.
        let is_long_ago = ends.ledger - self.seen.ledger > ends.runs;
        if self.prunes > 0 || !told.is_empty() || is_long_ago {
            *self = Self::default();
        }
        for stretches in self.stale(connection, &ends, &held)? {
            self.count(connection, stretches)?;
        }
        (self.held, self.prunes, self.seen) = (held, prunes, ends);
        self.sums(connection)
    }

    fn stale(
        &self,
        connection: &Connection,
        ends: &ChangePositions,
        held: &BTreeSet<i64>,
    ) -> Result<Vec<Range<i64>>> {
        let last = ends.runs / STRETCH;
        if self.seen == ChangePositions::default() {
            return Ok(std::iter::once(0..last + 1).collect());
        }
        let params = params![self.seen.ledger, ends.ledger, self.seen.journal, ends.journal];
        let sql = queries::CHANGED_STRETCHES;
        let changed = read_rows(connection, DOING, sql, params, |row| row.get())?;
        let mut stale: BTreeSet<i64> = changed.into_iter().collect();
        stale.extend(held);
        stale.extend(&self.held);
        if ends.runs > self.seen.runs {
            stale.extend(self.seen.runs / STRETCH..=last);
        }
        Ok(joined(stale))
    }

    /// Counts adjacent stretches again.
    fn count(&mut self, connection: &Connection, stretches: Range<i64>) -> Result<()> {
        for stretch in stretches.clone() {
            self.stretches.remove(&stretch);
        }
        let mut statement = connection.prepare_cached(queries::RUN_STATES).doing(DOING)?;
        let ids = params![stretches.start * STRETCH, stretches.end * STRETCH];
        let mut rows = statement.query(ids).doing(DOING)?;
        let mut counted = (stretches.start, Vec::new());
        while let Some(row) = rows.next().doing(DOING)? {
            let stretch = row.get::<_, i64>(0).doing(DOING)? / STRETCH;
            if stretch != counted.0 {
                let (before, counts) = std::mem::replace(&mut counted, (stretch, Vec::new()));
                self.keep(before, counts);
            }
            self.add(&mut counted.1, row)?;
        }
        self.keep(counted.0, counted.1);
        Ok(())
    }

    fn keep(&mut self, stretch: i64, counts: Vec<StretchCount>) {
        if !counts.is_empty() {
            self.stretches.insert(stretch, counts);
        }
    }

    fn add(&mut self, counts: &mut Vec<StretchCount>, row: &Row<'_>) -> Result<()> {
        let text = |column| -> rusqlite::Result<&str> { Ok(row.get_ref(column)?.as_str()?) };
        let (queue, status) = (text(1).doing(DOING)?, text(2).doing(DOING)?);
        let known = RunStatus::from_name(status);
        let status = known.ok_or_else(|| Error::bad_value(DOING, "status", status.to_owned()))?;
        let state = RunState::of(status, row.get(3).doing(DOING)?);
        let queue = match self.queues.get(queue) {
            Some(number) => *number,
            None => {
                let number = self.queues.len();
                self.queues.insert(queue.to_owned(), number);
                number
            }
        };
        match counts.iter_mut().find(|count| count.queue == queue && count.state == state) {
            Some(count) => count.runs += 1,
            None => counts.push(StretchCount { queue, state, runs: 1 }),
        }
        Ok(())
    }

    fn sums(&self, connection: &Connection) -> Result<Vec<QueueCount>> {
        let mut sums: HashMap<usize, Vec<(RunState, u64)>> = HashMap::new();
        for StretchCount { queue, state, runs } in self.stretches.values().flatten() {
            let states = sums.entry(*queue).or_default();
            match states.iter_mut().find(|(known, _)| known == state) {
                Some((_, sum)) => *sum += runs,
                None => states.push((*state, *runs)),
            }
        }
        let mut counts = Vec::new();
        for (queue, number) in &self.queues {
            let Some(states) = sums.remove(number) else { continue };
            let heads = read_rows(connection, DOING, queries::QUEUE_HEADS, [queue], |row| {
                Ok((row.optional_timestamp()?, row.optional_timestamp()?))
            })?;
            let (oldest_ready, next_due) = heads.into_iter().next().unwrap_or_default();
            counts.extend(states.into_iter().map(|sum| QueueCount {
                queue: queue.clone(),
                runs: Some(sum),
                oldest_ready,
                next_due,
                paused_at: None,
            }));
        }
        Ok(counts)
    }
}

/// Joins adjacent numbers to ranges.
fn joined(numbers: BTreeSet<i64>) -> Vec<Range<i64>> {
    let mut ranges: Vec<Range<i64>> = Vec::new();
    for number in numbers {
        match ranges.last_mut().filter(|range| range.end == number) {
            Some(range) => range.end += 1,
            None => ranges.push(number..number + 1),
        }
    }
    ranges
}
