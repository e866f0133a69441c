//! What must hold for a partition, its row of work and its attempts, as a pure function of all three.

use std::collections::HashSet;

use redrive_core::{PartitionStatus, Unit};
use redrive_store::{
    AttemptOutcome, AttemptRecord, PartitionRecord, PartitionWorkRecord, WorkKind,
};

use crate::checks::checker::{Finding, Invariant};

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
        return Some(format!("the ledger has attempt {found} instead of attempt {expected}"));
    }
    let (rows, counted) = (attempts.len(), partition.attempt_count);
    (rows != counted as usize)
        .then(|| format!("attempt_count is {counted}, but the ledger has {rows} attempts"))
}

/// A partition is `success` if and only if a run was accepted, and the last accepted run has authority.
fn authority(partition: &PartitionRecord, attempts: &[AttemptRecord]) -> Option<String> {
    let accepted = attempts.iter().rfind(|attempt| attempt.outcome == AttemptOutcome::Success);
    let run = accepted.and_then(|attempt| attempt.run_id.as_deref());
    let current = partition.current_run_id.as_ref().map(|run_id| run_id.as_str());
    let is_success = partition.status == PartitionStatus::Success;
    if is_success != accepted.is_some() {
        let has = if accepted.is_some() { "has an" } else { "has no" };
        return Some(format!("status is {}, but the ledger {has} accepted run", partition.status));
    }
    if current != run {
        let name = |run: Option<&str>| run.unwrap_or("none").to_owned();
        let (current, run) = (name(current), name(run));
        return Some(format!("current_run_id is {current}, but the last accepted run is {run}"));
    }
    let mut seen = HashSet::new();
    let mut runs = attempts.iter().filter_map(|attempt| attempt.run_id.as_deref());
    runs.find(|run| !seen.insert(*run))
        .map(|run| format!("the ledger has two verdicts on run {run}"))
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
        format!("status is {}, but the last attempt in the ledger is {last}", partition.status)
    })
}

fn lease(work: &PartitionWorkRecord) -> Option<String> {
    let held = work.lease_owner.is_some();
    if held != work.lease_until.is_some() || held != work.run_id.is_some() {
        return Some(
            "the lease is incomplete: only some of lease_owner, lease_until and run_id are set"
                .to_owned(),
        );
    }
    if held && work.request.is_none() {
        return Some("a worker holds a lease, but no work is requested".to_owned());
    }
    (held && work.lease_epoch.0 < 1)
        .then(|| "a worker holds a lease under epoch 0, which no claim assigns".to_owned())
}

fn wake_up(partition: &PartitionRecord) -> Option<String> {
    let work = partition.work.as_ref();
    let requested = work.and_then(|work| work.request.as_ref()).map(|request| request.kind);
    if work.is_some_and(|work| work.request.is_none() && work.paused.is_none()) {
        return Some("the row of work has neither a request nor a pause".to_owned());
    }
    let first = partition.attempt_count == 0;
    let fits = match partition.status {
        PartitionStatus::Pending if first => requested == Some(WorkKind::First),
        PartitionStatus::Pending => requested == Some(WorkKind::Retry),
        PartitionStatus::Success => matches!(requested, None | Some(WorkKind::Reprocess)),
        PartitionStatus::Failed => requested.is_none(),
    };
    (!fits).then(|| {
        let requested = requested.map_or("nothing", WorkKind::name);
        format!("status is {}, but the requested work is {requested}", partition.status)
    })
}
