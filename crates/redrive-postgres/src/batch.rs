//! Batches: columns as arrays, and batches that name a row twice.
//!
//! A batch must end as if its rows were written one after another, but one query sees the state before all of
//! them and changes each row once. So a row that repeats an earlier one is left out if the repetition cannot
//! apply, or written by a query of its own.

use std::{collections::HashSet, hash::Hash};

use redrive_store::{Result, RowReader, Written};
use tokio_postgres::Row;

use crate::columns::PostgresRow;

/// One column of a batch, as an array.
pub(crate) fn each<'a, T, U>(rows: &'a [T], column: impl FnMut(&'a T) -> U) -> Vec<U> {
    rows.iter().map(column).collect()
}

/// The rows of a batch without repetitions. For guarded writes whose repetition is always stale, because the
/// first write ends the lease that the second one names.
pub(crate) struct FirstOccurrences<'a, T> {
    pub(crate) rows: Vec<&'a T>,
    places: Vec<usize>,
    size: usize,
}

impl<'a, T> FirstOccurrences<'a, T> {
    pub(crate) fn of<K: Eq + Hash>(
        batch: impl IntoIterator<Item = &'a T>,
        key: impl Fn(&T) -> K,
    ) -> Self {
        let (mut seen, mut size) = (HashSet::new(), 0);
        let counted = batch.into_iter().inspect(|_| size += 1).enumerate();
        let (places, rows) = counted.filter(|(_, row)| seen.insert(key(row))).unzip();
        Self { rows, places, size }
    }

    /// The row at a place of a query, which counts from 1.
    pub(crate) fn at(&self, place: i64) -> Option<&'a T> {
        let place = usize::try_from(place).ok()?.checked_sub(1)?;
        self.rows.get(place).copied()
    }

    /// The results of the whole batch, from the places that a query says it has applied.
    pub(crate) fn written(&self, applied: &[Row], doing: &'static str) -> Result<Vec<Written>> {
        let results = self.results(applied, doing, |_| Ok(()))?;
        Ok(each(&results, |result| Written::from_changed(result.is_some())))
    }

    /// Like [`FirstOccurrences::written`], from places that are not rows.
    pub(crate) fn written_at(&self, applied: &[i64]) -> Vec<Written> {
        let mut written = vec![Written::Stale; self.size];
        for place in applied {
            let place = usize::try_from(*place).ok().and_then(|place| place.checked_sub(1));
            let original = place.and_then(|place| self.places.get(place));
            if let Some(outcome) = original.and_then(|place| written.get_mut(*place)) {
                *outcome = Written::Applied;
            }
        }
        written
    }

    /// What a query returns for the places that it has applied; `None` for the others.
    pub(crate) fn results<A>(
        &self,
        applied: &[Row],
        doing: &'static str,
        read: impl Fn(&mut PostgresRow<'_>) -> Result<A>,
    ) -> Result<Vec<Option<A>>> {
        let mut results: Vec<Option<A>> = std::iter::repeat_with(|| None).take(self.size).collect();
        for row in applied {
            let mut row = PostgresRow::new(row, doing);
            let place = row.count::<usize>("place")?.checked_sub(1);
            let original = place.and_then(|place| self.places.get(place));
            if let Some(result) = original.and_then(|place| results.get_mut(*place)) {
                *result = Some(read(&mut row)?);
            }
        }
        Ok(results)
    }
}

/// Splits a batch into parts without repeated keys. The parts are written one after another.
pub(crate) fn split_at_repeats<T, K: Eq + Hash>(batch: &[T], key: impl Fn(&T) -> K) -> Vec<&[T]> {
    let mut seen = HashSet::with_capacity(batch.len());
    let mut parts = Vec::new();
    let mut rest = batch;
    while !rest.is_empty() {
        seen.clear();
        let length = rest.iter().take_while(|row| seen.insert(key(row))).count();
        let (part, others) = rest.split_at(length);
        parts.push(part);
        rest = others;
    }
    parts
}

/// The results of a part, from the places that a query says it has applied.
pub(crate) fn written(applied: &[Row], doing: &'static str, size: usize) -> Result<Vec<Written>> {
    let mut written = vec![Written::Stale; size];
    for row in applied {
        let place = applied_place(row, doing)?;
        if let Some(outcome) = place.and_then(|place| written.get_mut(place)) {
            *outcome = Written::Applied;
        }
    }
    Ok(written)
}

/// Queries count places from 1.
fn applied_place(row: &Row, doing: &'static str) -> Result<Option<usize>> {
    let place: usize = PostgresRow::new(row, doing).count("place")?;
    Ok(place.checked_sub(1))
}
