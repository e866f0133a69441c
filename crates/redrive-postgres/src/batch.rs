//! Batches: their columns as arrays, and what happens when one names a row twice.
//!
//! A batch must end as if its rows had been written one after another, but one statement sees the
//! state before all of them and changes a row once. So rows that repeat an earlier one are kept out
//! of its way: left out where the repetition cannot apply, or put into a statement of their own.

use std::{collections::HashSet, hash::Hash};

use redrive_store::{Result, Written};
use tokio_postgres::Row;

use crate::columns::Columns;

/// One column of a batch.
pub(crate) fn each<'a, T, U>(rows: &'a [T], column: impl FnMut(&'a T) -> U) -> Vec<U> {
    rows.iter().map(column).collect()
}

/// The rows of a batch that come for the first time. For guarded writes whose repetition is always
/// stale: the first has ended what the second would end.
pub(crate) struct Firsts<'a, T> {
    pub(crate) rows: Vec<&'a T>,
    places: Vec<usize>,
    size: usize,
}

impl<'a, T> Firsts<'a, T> {
    pub(crate) fn of<K: Eq + Hash>(
        batch: impl IntoIterator<Item = &'a T>,
        key: impl Fn(&T) -> K,
    ) -> Self {
        let (mut seen, mut size) = (HashSet::new(), 0);
        let counted = batch.into_iter().inspect(|_| size += 1).enumerate();
        let (places, rows) = counted.filter(|(_, row)| seen.insert(key(row))).unzip();
        Self { rows, places, size }
    }

    /// What became of the whole batch, from the places that a statement says it applied.
    pub(crate) fn written(&self, applied: &[Row], doing: &'static str) -> Result<Vec<Written>> {
        let answers = self.answers(applied, doing, |_| Ok(()))?;
        Ok(each(&answers, |answer| Written::from_changed(answer.is_some())))
    }

    /// What a statement says of the places that it applied, and nothing of the others.
    pub(crate) fn answers<A>(
        &self,
        applied: &[Row],
        doing: &'static str,
        read: impl Fn(&mut Columns<'_>) -> Result<A>,
    ) -> Result<Vec<Option<A>>> {
        let mut answers: Vec<Option<A>> = std::iter::repeat_with(|| None).take(self.size).collect();
        for row in applied {
            let mut row = Columns::new(row, doing);
            let place = row.count::<usize>("place")?.checked_sub(1);
            let original = place.and_then(|place| self.places.get(place));
            if let Some(answer) = original.and_then(|place| answers.get_mut(*place)) {
                *answer = Some(read(&mut row)?);
            }
        }
        Ok(answers)
    }
}

/// Cuts a batch into parts in which no key comes twice. The parts are written one after another.
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

/// What became of a part, from the places that a statement says it applied.
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

/// Statements count places from 1.
fn applied_place(row: &Row, doing: &'static str) -> Result<Option<usize>> {
    let place: usize = Columns::new(row, doing).count("place")?;
    Ok(place.checked_sub(1))
}
