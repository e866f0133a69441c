//! What must be true of a partition, its work and its attempts, as a pure function of all three.

use std::collections::HashSet;

use redrive_core::{PartitionStatus, Unit};
use redrive_store::{AttemptOutcome, AttemptRecord, PartitionRecord, PartitionWork, WorkKind};

use crate::checks::checker::{Finding, Invariant};

/// Everything that is wrong with a partition, as far as it and its attempts tell.
pub(crate) fn check_partition(
    partition: &PartitionRecord,
    attempts: &[AttemptRecord],
) -> Vec<Finding> {
    let problems = [
        (Invariant::LedgerNumbers, numbers(partition, attempts)),
        (Invariant::Authority, authority(partition, attempts)),
        (Invariant::StatusMatchesLedger, status_matches_ledger(partition, attempts)),
        (Invariant::Lease, partition.work.as_ref().and_then(lease)),
        (Invariant::WakeUp, wake_up(partition)),
    ];
    let finding = |(invariant, problem): (Invariant, Option<String>)| {
        let unit = Unit::Partition(partition.key.clone()).to_string();
        problem.map(|problem| Finding { invariant, unit, problem })
    };
    problems.into_iter().filter_map(finding).collect()
}

fn numbers(partition: &PartitionRecord, attempts: &[AttemptRecord]) -> Option<String> {
    let gap = attempts.iter().zip(1..).find(|(attempt, expected)| attempt.attempt.0 != *expected);
    if let Some((attempt, expected)) = gap {
        let found = attempt.attempt;
        return Some(format!("the ledger has attempt {found} where {expected} belongs"));
    }
    let (rows, counted) = (attempts.len(), partition.attempt_count);
    (rows != counted as usize)
        .then(|| format!("attempt_count is {counted}, the ledger has {rows} attempts"))
}

/// A partition is good exactly if a run of it was ever accepted, and the last of those has authority.
fn authority(partition: &PartitionRecord, attempts: &[AttemptRecord]) -> Option<String> {
    let accepted = attempts.iter().rfind(|attempt| attempt.outcome == AttemptOutcome::Success);
    let run = accepted.and_then(|attempt| attempt.run_id.as_deref());
    let current = partition.current_run_id.as_ref().map(|run_id| run_id.as_str());
    let good = partition.status == PartitionStatus::Success;
    if good != accepted.is_some() {
        let has = if accepted.is_some() { "has" } else { "does not have" };
        return Some(format!("it is {}, and the ledger {has} a success", partition.status));
    }
    if current != run {
        let name = |run: Option<&str>| run.unwrap_or("none").to_owned();
        let (current, run) = (name(current), name(run));
        return Some(format!("its current run is {current}, the last accepted one is {run}"));
    }
    let mut seen = HashSet::new();
    let mut runs = attempts.iter().filter_map(|attempt| attempt.run_id.as_deref());
    runs.find(|run| !seen.insert(*run)).map(|run| format!("run {run} was judged twice"))
}

fn status_matches_ledger(
    partition: &PartitionRecord,
    attempts: &[AttemptRecord],
) -> Option<String> {
    let last = attempts.last().map(|attempt| attempt.outcome);
    let fits = match partition.status {
        PartitionStatus::Pending => matches!(last, None | Some(AttemptOutcome::Failed)),
        PartitionStatus::Success => true,
        PartitionStatus::Failed => last == Some(AttemptOutcome::Failed),
    };
    (!fits).then(|| {
        let last = last.map_or("nothing", AttemptOutcome::name);
        format!("it is {}, and the last the ledger has is {last}", partition.status)
    })
}

fn lease(work: &PartitionWork) -> Option<String> {
    let held = work.lease_owner.is_some();
    if held != work.lease_until.is_some() || held != work.run_id.is_some() {
        return Some("its lease is not whole: owner, end and run go together".to_owned());
    }
    if held && work.request.is_none() {
        return Some("it is held, and nothing is asked for".to_owned());
    }
    (held && work.lease_epoch.0 < 1)
        .then(|| "it is held under an epoch that no claim gave".to_owned())
}

fn wake_up(partition: &PartitionRecord) -> Option<String> {
    let work = partition.work.as_ref();
    let asked = work.and_then(|work| work.request.as_ref()).map(|request| request.kind);
    if work.is_some_and(|work| work.request.is_none() && work.paused.is_none()) {
        return Some("it has a row of work for nothing".to_owned());
    }
    let first = partition.attempt_count == 0;
    let fits = match partition.status {
        PartitionStatus::Pending if first => asked == Some(WorkKind::First),
        PartitionStatus::Pending => asked == Some(WorkKind::Retry),
        PartitionStatus::Success => matches!(asked, None | Some(WorkKind::Reprocess)),
        PartitionStatus::Failed => asked.is_none(),
    };
    (!fits).then(|| {
        let asked = asked.map_or("nothing", WorkKind::name);
        format!("it is {}, and what is asked for is {asked}", partition.status)
    })
}
