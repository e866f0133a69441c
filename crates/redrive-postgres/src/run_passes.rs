//! Finished runs by blocks of ids, and those of them that passed.
//!
//! A claim has a row for each block of 256 ids, and a row of the ledger serves the passes of a block. A finish compares
//! the ids of a block that have ended with those that the claim has left. If they are the same, it writes the passes as
//! slices of its columns and looks up no run.

use jiff::Timestamp;
use redrive_core::AttemptNumber;
use redrive_store::{RunCompletion, RunFinish, Verdict};

use crate::{batch::each, bound_query::columns, columns::Micros};

/// Longer results are stored with the state of their run.
const MAX_PASS_RESULT_BYTES: usize = 1_024;

/// Whether a row of the ledger that serves many passes is all that is written about a run.
pub(crate) fn is_pass(finish: &RunFinish) -> bool {
    let RunCompletion::Judged { verdict: Verdict::Passed, result } = &finish.completion else {
        return false;
    };
    // A later attempt follows a failure, so the run has a state.
    (!is_first(finish) || finish.history.first_attempt_at.is_none())
        && result.as_ref().is_none_or(|result| result.len() <= MAX_PASS_RESULT_BYTES)
}

fn is_first(finish: &RunFinish) -> bool {
    finish.attempt == AttemptNumber(1)
}

columns! {
    /// The runs of a batch by epoch and block: a stretch of all ids, and one of the passes at first attempts, which precede the
    /// others.
    pub(crate) struct PassColumns<'a> {
        ended_id: Vec<i64>,
        block_epoch: Vec<i64>,
        block: Vec<i64>,
        first_at: Vec<i32>,
        last_at: Vec<i32>,
        first_pass: Vec<i32>,
        last_pass: Vec<i32>,
        pass_place: Vec<i64>,
        pass_id: Vec<i64>,
        pass_epoch: Vec<i64>,
        pass_attempt: Vec<i64>,
        pass_started_at: Vec<Micros>,
        pass_ended_at: Vec<Micros>,
        first_worker: Option<&'a str>,
        pass_worker: Vec<Option<&'a str>>,
        pass_result: Vec<Option<&'a str>>,
    }
}

impl<'a> PassColumns<'a> {
    /// Of a batch, and of its passes with their places.
    pub(crate) fn of(
        batch: &[&'a RunFinish],
        mut passes: Vec<(i64, &'a RunFinish)>,
        now: Timestamp,
    ) -> Self {
        passes.sort_unstable_by_key(|(_, pass)| (!is_first(pass), pass.epoch, pass.id));
        let first_worker = passes.first().map(|(_, pass)| pass.worker.0.as_str());
        let worker = |(_, pass): &(i64, &'a RunFinish)| {
            Some(pass.worker.0.as_str()).filter(|worker| Some(*worker) != first_worker)
        };
        let mut ended = batch.to_vec();
        ended.sort_unstable_by_key(|finish| (finish.epoch, finish.id));
        let mut columns = Self {
            ended_id: each(&ended, |finish| finish.id.0),
            block_epoch: Vec::new(),
            block: Vec::new(),
            first_at: Vec::new(),
            last_at: Vec::new(),
            first_pass: Vec::new(),
            last_pass: Vec::new(),
            pass_place: each(&passes, |(place, _)| *place),
            pass_id: each(&passes, |(_, pass)| pass.id.0),
            pass_epoch: each(&passes, |(_, pass)| pass.epoch.0),
            pass_attempt: each(&passes, |(_, pass)| i64::from(pass.attempt.0)),
            pass_started_at: each(&passes, |(_, pass)| Micros(pass.started_at)),
            pass_ended_at: each(&passes, |(_, pass)| Micros(pass.ended_at)),
            first_worker,
            pass_worker: unless_all_are_none(each(&passes, worker)),
            pass_result: unless_all_are_none(each(&passes, |(_, pass)| pass.columns(now).result)),
        };
        let (mut last_at, mut last_pass) = (0, 0);
        for runs in ended.chunk_by(|one, next| place_of(one) == place_of(next)) {
            let Some(first) = runs.first() else { continue };
            let (epoch, block) = place_of(first);
            columns.block_epoch.push(epoch);
            columns.block.push(block);
            columns.first_at.push(last_at + 1);
            last_at += count(runs.iter());
            // A row of the ledger has one worker, so runs of several are looked up.
            let has_one_worker = runs.iter().all(|finish| finish.worker == first.worker);
            columns.last_at.push(if has_one_worker { last_at } else { 0 });
            columns.first_pass.push(last_pass + 1);
            last_pass += count(runs.iter().filter(|finish| is_first(finish) && is_pass(finish)));
            columns.last_pass.push(last_pass);
        }
        columns
    }
}

/// The epoch and the block of ids.
fn place_of(finish: &RunFinish) -> (i64, i64) {
    (finish.epoch.0, finish.id.0 >> 8)
}

/// As an index of PostgreSQL's arrays.
fn count(rows: impl Iterator) -> i32 {
    i32::try_from(rows.count()).unwrap_or(i32::MAX)
}

/// The server takes what an array lacks for NULL.
fn unless_all_are_none<T>(column: Vec<Option<T>>) -> Vec<Option<T>> {
    if column.iter().all(Option::is_none) { Vec::new() } else { column }
}
