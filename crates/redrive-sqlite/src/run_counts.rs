//! How many runs are in which state, without reading all of them every time.
//!
//! A run comes into another state by being submitted, claimed, finished or handed back, or by an operator's wish. One
//! that is new has a higher id than all before. One that is claimed is among those that are held. An end is a row of
//! the ledger, and everything else an entry of the journal. So what may have changed since the last look is known, and
//! only the stretches of ids that it lies in are read again. Nothing is written for it, and it does not matter
//! which process changed what. Only pruning takes runs away without telling which: while that goes on,
//! everything is read.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
};

use redrive_core::{RunState, RunStatus};
use redrive_store::{Error, QueueCount, Result};
use rusqlite::{Connection, Row, params};

use crate::{
    columns::{SqliteRow, read_rows},
    error::Doing,
    queries,
};

const DOING: &str = "counting runs";

/// Ids that are counted together; the queries know it.
const STRETCH: i64 = 1_024;

/// What the last look saw.
#[derive(Default)]
pub(crate) struct RunCounts {
    /// Every queue with its number.
    queues: HashMap<String, usize>,
    stretches: BTreeMap<i64, Vec<StretchCount>>,
    /// The stretches with something held in them.
    held: BTreeSet<i64>,
    /// Prunes that have begun and not ended.
    prunes: i64,
    seen: ChangePositions,
}

/// Runs of a stretch that are in one queue and one state.
#[derive(Clone, Copy, PartialEq, Eq)]
struct StretchCount {
    /// Its number.
    queue: usize,
    state: RunState,
    runs: u64,
}

/// How far everything goes that tells of changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ChangePositions {
    runs: i64,
    ledger: i64,
    journal: i64,
}

impl ChangePositions {
    fn read(row: &mut SqliteRow<'_>) -> Result<Self> {
        Ok(Self { runs: row.get()?, ledger: row.get()?, journal: row.get()? })
    }
}

impl RunCounts {
    /// How many there are now. All of it is one look if the connection is within a transaction. A look that
    /// breaks off leaves everything that it would have read to the next.
    pub(crate) fn look(&mut self, connection: &Connection) -> Result<Vec<QueueCount>> {
        let ends =
            read_rows(connection, DOING, queries::RUN_ENDS, [], ChangePositions::read)?.pop();
        let ends = ends.unwrap_or_default();
        let held = read_rows(connection, DOING, queries::HELD_STRETCHES, [], |row| row.get())?;
        let held: BTreeSet<i64> = held.into_iter().collect();
        let since = params![self.seen.journal, ends.journal];
        let told = read_rows(connection, DOING, queries::PRUNES, since, |row| row.get::<bool>())?;
        let begun = told.iter().map(|has_begun| if *has_begun { 1 } else { -1 }).sum::<i64>();
        let prunes = self.prunes + begun;
        // After a long time it is no longer worth looking for what changed.
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

    /// The stretches that may have changed.
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
        let read = |row: &mut SqliteRow<'_>| row.get::<i64>();
        let changed = read_rows(connection, DOING, queries::CHANGED_STRETCHES, params, read)?;
        let mut stale: BTreeSet<i64> = changed.into_iter().collect();
        stale.extend(held);
        stale.extend(&self.held);
        if ends.runs > self.seen.runs {
            stale.extend(self.seen.runs / STRETCH..=last);
        }
        Ok(joined(stale))
    }

    /// Counts neighbouring stretches anew.
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

/// Neighbours as one range.
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
