//! The results of a batch of attempts, for the gates that they passed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use redrive_core::{Cause, Class, Failure, GateChange, GateOutcome, GateResult, Unit};

use crate::{
    FromRow, GateRecord, GateRule, GateRules, ItemMove, ItemPass, JournalEntry, PartitionFinish,
    PartitionVerdict, Result, RowReader, RunCompletion, RunFinish, SampleCompletion, SampleFinish,
    WorkerId, sample_unit,
};

/// The gates that a unit passed, and the key that it passed them with.
#[derive(Debug, Clone, PartialEq)]
pub struct PassedGates {
    pub rules: GateRules,
    pub key: String,
}

/// A permit that ended with its lease: its gate and key, the unit, and the epoch of the gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedPermit {
    pub gate: String,
    pub key: String,
    pub unit_id: i64,
    pub gate_epoch: u64,
}

impl FromRow for EndedPermit {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok(Self {
            gate: row.get()?,
            key: row.get()?,
            unit_id: row.get()?,
            gate_epoch: row.count("gate_epoch")?,
        })
    }
}

/// The results of a batch by gate and key.
#[derive(Debug, Default)]
pub struct GateResults {
    /// By the name of the gate, then by the key.
    gates: BTreeMap<String, BTreeMap<String, ResultsOfGate>>,
    /// Of items, whose results are written in batches larger than what is sent at once.
    items_at_once: Option<u32>,
    freed: bool,
}

#[derive(Debug)]
struct ResultsOfGate {
    rule: GateRule,
    /// With the ids of the units.
    results: Vec<(i64, GateResult)>,
}

impl ResultsOfGate {
    fn of(rule: &GateRule) -> Self {
        Self { rule: rule.clone(), results: Vec::new() }
    }
}

/// What a batch writes about its gates.
#[derive(Debug, Default)]
pub struct GateResultWrites {
    pub rows: Vec<GateRecord>,
    pub journal: Vec<JournalEntry>,
    /// Whether a gate lets more or fewer units through than before.
    pub changed: bool,
    /// Whether units gave back their places.
    pub freed: bool,
}

impl GateResults {
    /// `unit` names it, if its result is worth telling.
    fn add(
        &mut self,
        passed: &PassedGates,
        unit: impl FnOnce() -> String,
        unit_id: i64,
        failure: Option<&Failure>,
        ended_at: Timestamp,
    ) {
        let failed = failure.map(|failure| format!("{}: {}", failure.code(), failure.message()));
        let result = GateResult {
            outcome: outcome(failure, ended_at),
            ended_at,
            permit: None,
            unit: if failed.is_some() { unit() } else { String::new() },
            failure: failed,
        };
        for rule in passed.rules.iter() {
            let key = rule.key(&passed.key);
            let of_name = match self.gates.get_mut(&rule.name) {
                Some(of_name) => of_name,
                None => self.gates.entry(rule.name.clone()).or_default(),
            };
            let of_gate = match of_name.get_mut(key) {
                Some(of_gate) => of_gate,
                None => of_name.entry(key.to_owned()).or_insert_with(|| ResultsOfGate::of(rule)),
            };
            of_gate.results.push((unit_id, result.clone()));
        }
    }

    /// The results of runs, whether they are written or not.
    pub fn of_runs<'a>(finishes: impl IntoIterator<Item = &'a RunFinish>) -> Self {
        let mut results = Self::default();
        for finish in finishes {
            let Some(passed) = &finish.gates else { continue };
            let failure = match &finish.completion {
                RunCompletion::Failed { failure, .. } => Some(failure),
                RunCompletion::Judged { .. } => None,
            };
            let unit = || Unit::Run(finish.id).to_string();
            results.add(passed, unit, finish.id.0, failure, finish.ended_at);
        }
        results
    }

    /// The results of partitions, by the ids of their work rows.
    pub fn of_partitions<'a>(finishes: impl IntoIterator<Item = &'a PartitionFinish>) -> Self {
        let mut results = Self::default();
        for finish in finishes {
            let Some(passed) = &finish.gates else { continue };
            let failure = match &finish.verdict {
                PartitionVerdict::Rejected { failure } => Some(failure),
                PartitionVerdict::Accepted { .. } => None,
            };
            let unit = || Unit::Partition(finish.key.clone()).to_string();
            results.add(passed, unit, finish.lease.id, failure, finish.ended_at);
        }
        results
    }

    /// The results of samples, whether they are written or not.
    pub fn of_samples<'a>(finishes: impl IntoIterator<Item = &'a SampleFinish>) -> Self {
        let mut results = Self::default();
        for finish in finishes {
            let Some(passed) = &finish.gates else { continue };
            let failure = match &finish.completion {
                SampleCompletion::Failed { failure, .. } => Some(failure),
                SampleCompletion::Answered(_) | SampleCompletion::Skipped(_) => None,
            };
            let unit = || sample_unit(finish.id, &finish.stage_name);
            results.add(passed, unit, finish.id.0, failure, finish.ended_at);
        }
        results
    }

    /// The results of items that were sent.
    pub fn of_items<'a>(moves: impl IntoIterator<Item = &'a ItemMove>) -> Self {
        let mut results = Self::default();
        for step in moves {
            let Some(attempt) = &step.attempt else { continue };
            let Some(ItemPass { passed, at_once, .. }) = &attempt.gates else { continue };
            results.items_at_once = results.items_at_once.max(Some(*at_once));
            let unit = || Unit::Item(step.id).to_string();
            results.add(passed, unit, step.id.0, attempt.failure.as_ref(), step.at);
        }
        results
    }

    /// Adds what the units were let through under.
    pub fn add_permits(&mut self, permits: Vec<EndedPermit>) {
        self.freed |= !permits.is_empty();
        for permit in permits {
            let of_name = self.gates.get_mut(&permit.gate);
            let Some(of_gate) = of_name.and_then(|it| it.get_mut(&permit.key)) else { continue };
            for (unit, result) in &mut of_gate.results {
                if *unit == permit.unit_id {
                    result.permit = Some(permit.gate_epoch);
                }
            }
        }
    }

    /// Leaves out the results of other units: those that were not written.
    pub fn retain(&mut self, written: impl Fn(i64) -> bool) {
        for of_gate in self.gates.values_mut().flat_map(BTreeMap::values_mut) {
            of_gate.results.retain(|(unit, _)| written(*unit));
        }
    }

    pub fn is_empty(&self) -> bool {
        self.gates.is_empty()
    }

    fn each(&self) -> impl Iterator<Item = (&str, &str, &ResultsOfGate)> {
        self.gates.iter().flat_map(|(gate, keys)| {
            keys.iter().map(move |(key, of_gate)| (gate.as_str(), key.as_str(), of_gate))
        })
    }

    /// The gates and keys of the batch.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.each().map(|(gate, key, _)| (gate, key))
    }

    /// The gates and keys whose rows the batch may change, whatever they are like: others change only if they are not open, or
    /// have failures to forget.
    pub fn matters(&self) -> impl Iterator<Item = (&str, &str)> {
        let matters = |ResultsOfGate { rule, results }: &ResultsOfGate| {
            results.iter().any(|(_, result)| match result.outcome {
                GateOutcome::RateLimited { .. } => true,
                GateOutcome::Failed => rule.settings.trip().is_some() || result.permit.is_some(),
                GateOutcome::Answered => result.permit.is_some(),
                GateOutcome::Released => false,
            })
        };
        let found = self.each().filter(move |(_, _, of_gate)| matters(of_gate));
        found.map(|(gate, key, _)| (gate, key))
    }

    /// In the order of their ends, with the rule of the gate.
    fn of(&self, row: &GateRecord) -> Option<(&GateRule, Vec<GateResult>)> {
        let ResultsOfGate { rule, results } = self.gates.get(&row.gate)?.get(&row.key)?;
        let mut results: Vec<GateResult> =
            results.iter().map(|(_, result)| result.clone()).collect();
        results.sort_by_key(|result| result.ended_at);
        Some((rule, results))
    }

    /// Whether the results close the gate, so that `record` has to know what still runs behind it.
    pub fn close(&self, row: &GateRecord) -> bool {
        self.of(row).is_some_and(|(rule, results)| {
            let mut state = row.state.clone();
            row.is_open() && state.record(&rule.settings, &results, 0) == Some(GateChange::Closed)
        })
    }

    /// How many units ran behind an open gate that the results close: `held` still do.
    fn ran(&self, row: &GateRecord, held: u32, rule: &GateRule, results: &[GateResult]) -> u32 {
        let ended = u32::try_from(results.len()).unwrap_or(u32::MAX);
        let ran = row.ran(held).saturating_add(self.items_at_once.unwrap_or(ended));
        ran.min(rule.settings.concurrency().unwrap_or(u32::MAX))
    }

    /// Records the results in rows that were read in the transaction. `held` counts the units that still run behind a gate that
    /// they close.
    pub fn record(
        &self,
        rows: Vec<GateRecord>,
        held: impl Fn(&GateRecord) -> u32,
        worker: &WorkerId,
    ) -> GateResultWrites {
        let mut writes = GateResultWrites { freed: self.freed, ..GateResultWrites::default() };
        for mut row in rows {
            let Some((rule, results)) = self.of(&row) else { continue };
            let before = row.state.clone();
            let ran = if self.close(&row) { self.ran(&row, held(&row), rule, &results) } else { 0 };
            let change = row.state.record(&rule.settings, &results, ran);
            if row.state == before {
                continue;
            }
            let at = results.last().map_or(Timestamp::UNIX_EPOCH, |last| last.ended_at);
            if change.is_some() {
                writes.journal.push(row.entry(at, &worker.0, &before));
            }
            let (status, width) = (row.state.status, row.state.width);
            writes.changed |= (status, width) != (before.status, before.width);
            writes.rows.push(row);
        }
        writes
    }
}

/// What a failure says about the service. One of the worker says nothing.
fn outcome(failure: Option<&Failure>, ended_at: Timestamp) -> GateOutcome {
    let Some(failure) = failure else { return GateOutcome::Answered };
    match (failure.cause(), failure.class()) {
        (Cause::LostWorker | Cause::Shutdown | Cause::Spawn, _) => GateOutcome::Released,
        (_, Class::Final) => GateOutcome::Answered,
        (_, Class::Retryable) => GateOutcome::Failed,
        (_, class @ Class::RateLimited { .. }) => {
            let until = class.hint().and_then(|hint| ended_at.checked_add(hint).ok());
            GateOutcome::RateLimited { until }
        }
    }
}
