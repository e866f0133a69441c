//! What handlers logged, against what the store keeps: each attempt has its own lines, and a failure has them.

use std::collections::BTreeMap;

use redrive_core::Cause;
use redrive_engine::Call;
use redrive_store::{AttemptLog, AttemptOutcome, AttemptRecord, Store};

use super::lived::Lived;

/// By run and attempt.
pub(crate) type AttemptLogTexts = BTreeMap<(i64, u32), AttemptLog>;

/// What a handler logs as it begins.
pub(crate) fn first_line(call: &Call) -> String {
    format!("begin {}", call.id())
}

/// And as it ends.
pub(crate) fn last_line(call: &Call) -> String {
    format!("end {}", call.id())
}

/// The logs of all attempts of the ledger.
pub(crate) async fn read(
    attempts: &BTreeMap<i64, Vec<AttemptRecord>>,
    store: &dyn Store,
) -> AttemptLogTexts {
    let mut logs = BTreeMap::new();
    for attempt in attempts.values().flatten() {
        if let Some(log) = store.log_of(&attempt.unit, attempt.attempt).await.unwrap() {
            logs.insert((attempt.unit.id, attempt.attempt.0), log);
        }
    }
    logs
}

pub(crate) fn judge(lived: &Lived) -> Vec<String> {
    let mut problems = Vec::new();
    for ((run, attempt), log) in &lived.logs {
        let id = format!("run:{run}#{attempt}");
        let own = [format!("begin {id}"), format!("end {id}")];
        if log.text.lines().any(|line| !own.iter().any(|own| own == line)) {
            problems.push(format!("the log of {id} has lines of others: {:?}", log.text));
        }
    }
    for attempt in lived.attempts.values().flatten() {
        let (run, number) = (attempt.unit.id, attempt.attempt.0);
        let failed = !matches!(attempt.outcome, AttemptOutcome::Success | AttemptOutcome::Skipped);
        // A worker that was lost may have been lost before it wrote the log.
        let by_worker = attempt.cause != Some(Cause::LostWorker);
        if failed && by_worker && !lived.logs.contains_key(&(run, number)) {
            problems.push(format!("run:{run}#{number} failed, and its log is lost"));
        }
    }
    problems
}
