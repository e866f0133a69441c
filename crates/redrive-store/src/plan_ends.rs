//! How units of a plan ended first after the plan had changed them, told by their attempts.
//!
//! The state of a unit tells how it ended, unless others acted on it before the plan looked: a unit that failed again, was
//! retried by hand and passed looks like one that recovered. The abort condition must count the failure.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use redrive_core::{PartitionState, RunState, SampleState};

use crate::{
    AttemptOutcome, AttemptRecord, LedgerPlace, PlanAction, PlanOutcome, PlanUnit, PlanUnitRecord,
    UnitKind,
};

/// Attempts in one page.
pub const ENDS_PAGE: u32 = 1_000;

/// The first ends of units that others acted on. The caller reads the attempts, page by page.
#[derive(Debug)]
pub struct FirstEnds {
    kind: UnitKind,
    units: BTreeMap<i64, Since>,
    ends: HashMap<i64, FirstEnd>,
    after: LedgerPlace,
    is_read: bool,
}

/// The last attempt before the plan changed a unit.
#[derive(Debug)]
struct Since {
    attempt: u32,
    /// Of a sample, with the time of that attempt.
    stage: String,
    ended_at: Option<Timestamp>,
}

#[derive(Debug)]
struct FirstEnd {
    ended_at: Timestamp,
    failed: bool,
    cause: Option<String>,
}

impl FirstEnds {
    /// About the pending units of which the state does not tell how they ended first.
    pub fn new(
        action: PlanAction,
        units: &[PlanUnitRecord],
        found: &HashMap<i64, PlanUnit>,
    ) -> Self {
        let since = |unit: &PlanUnitRecord| {
            Some((unit.unit_id, unit.acted_on_since(found.get(&unit.unit_id)?)?))
        };
        let units: BTreeMap<i64, Since> = units.iter().filter_map(since).collect();
        let is_read = units.is_empty();
        let (kind, after) = (action.kind(), LedgerPlace::start());
        Self { kind, units, ends: HashMap::new(), after, is_read }
    }

    /// The units whose attempts are to be read, and after which place; `None` at the end.
    pub fn next(&self) -> Option<(Vec<i64>, &LedgerPlace)> {
        (!self.is_read).then(|| (self.units.keys().copied().collect(), &self.after))
    }

    /// Takes a page of attempts.
    pub fn add(&mut self, attempts: &[AttemptRecord]) {
        for attempt in attempts {
            let AttemptRecord { unit, ended_at, .. } = attempt;
            let is_earlier = |known: &FirstEnd| *ended_at < known.ended_at;
            if let Some(end) = self.end_of(attempt)
                && self.ends.get(&unit.id).is_none_or(is_earlier)
            {
                self.ends.insert(unit.id, end);
            }
        }
        if let Some(AttemptRecord { unit, attempt, .. }) = attempts.last() {
            self.after = LedgerPlace { id: unit.id, stage: unit.stage.clone(), attempt: *attempt };
        }
        self.is_read = attempts.len() < ENDS_PAGE as usize;
    }

    fn end_of(&self, attempt: &AttemptRecord) -> Option<FirstEnd> {
        let since = self.units.get(&attempt.unit.id)?;
        let is_later = match attempt.unit.stage == since.stage {
            true => attempt.attempt.0 > since.attempt,
            false => since.ended_at.is_none_or(|at| attempt.ended_at >= at),
        };
        let failed = match (self.kind, attempt.outcome) {
            (UnitKind::Partition, outcome) => outcome != AttemptOutcome::Success,
            (_, AttemptOutcome::Retrying) => return None,
            (_, AttemptOutcome::Failed) => true,
            // The success of a stage is not that of the sample.
            (UnitKind::Sample, AttemptOutcome::Success | AttemptOutcome::Skipped) => return None,
            (_, AttemptOutcome::Success | AttemptOutcome::Skipped) => false,
        };
        let end =
            || FirstEnd { ended_at: attempt.ended_at, failed, cause: attempt.fingerprint.clone() };
        is_later.then(end)
    }

    /// How a unit ended first, and its new cause; `None` if its state tells it.
    pub(crate) fn outcome(&self, unit: &PlanUnitRecord) -> Option<(PlanOutcome, Option<String>)> {
        let end = self.ends.get(&unit.unit_id)?;
        Some(match end.failed {
            false => (PlanOutcome::Recovered, None),
            true if end.cause == unit.cause => (PlanOutcome::SameCause, end.cause.clone()),
            true => (PlanOutcome::OtherCause, end.cause.clone()),
        })
    }
}

impl PlanUnitRecord {
    /// The last attempt before the plan changed the unit, if others have acted on the unit since.
    fn acted_on_since(&self, now: &PlanUnit) -> Option<Since> {
        let undo = || self.undo_json();
        let number = |name: &str| u32::try_from(undo()?.get(name)?.as_u64()?).ok();
        let since = |attempt| Since { attempt, stage: String::new(), ended_at: None };
        match now {
            PlanUnit::Run(run) => {
                let before = number("attempts")?;
                let is_cancelled = run.state() == RunState::Cancelled && run.attempts > before;
                (run.attempts_at_reset > before || is_cancelled).then(|| since(before))
            }
            PlanUnit::Partition(partition) => {
                let before = u32::try_from(self.version).ok()?;
                let more = partition.attempt_count.saturating_sub(before);
                let is_open = match partition.state() {
                    PartitionState::Absent
                    | PartitionState::Pending
                    | PartitionState::Reprocessing => true,
                    PartitionState::Success | PartitionState::Failed | PartitionState::Terminal => {
                        false
                    }
                };
                (more > 1 || (more == 1 && is_open)).then(|| since(before))
            }
            PlanUnit::Sample(sample) => {
                let (before, undo) = (number("attempts")?, undo()?);
                let stage = undo.get("stage")?.as_str()?.to_owned();
                let is_same = stage == sample.stage_name;
                let is_open = match sample.state() {
                    SampleState::Ready | SampleState::Running | SampleState::WaitingForRetry => {
                        true
                    }
                    SampleState::Succeeded | SampleState::Skipped | SampleState::Dead => false,
                };
                let is_reset = sample.attempts_at_reset > if is_same { before } else { 0 };
                let ended_at = undo.get("last_attempt_at").and_then(serde_json::Value::as_i64);
                let ended_at = ended_at.and_then(|at| Timestamp::from_microsecond(at).ok());
                let since = Since { attempt: before, stage, ended_at };
                (is_reset || !(is_same || is_open)).then_some(since)
            }
            // The ledger does not tell which rejection was the last before a reset.
            PlanUnit::Item(_) => None,
        }
    }
}
