//! The evidence, put in order for those who judge it.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    evidence::{Attempt, Evidence, Execution, Noted},
    faults::Incident,
    requests::Asked,
};

/// All that is known.
pub(super) struct Case<'a> {
    pub(super) evidence: &'a Evidence,
    pub(super) asked: &'a Asked,
    pub(super) incidents: &'a [Incident],
    /// How often each execution was begun.
    pub(super) begun: BTreeMap<&'a Execution, usize>,
    pub(super) ok: BTreeSet<&'a Execution>,
    pub(super) failed: BTreeSet<&'a Execution>,
    pub(super) rows: BTreeMap<&'a Execution, &'a Attempt>,
    told: BTreeMap<(&'a str, &'a str), usize>,
    /// Runs of partitions that were begun and handed back.
    pub(super) runs_handed_back: BTreeSet<&'a str>,
}

impl<'a> Case<'a> {
    pub(super) fn new(evidence: &'a Evidence, asked: &'a Asked, incidents: &'a [Incident]) -> Self {
        let mut case = Self {
            evidence,
            asked,
            incidents,
            begun: BTreeMap::new(),
            ok: BTreeSet::new(),
            failed: BTreeSet::new(),
            rows: evidence.attempts.iter().map(|row| (&row.execution, row)).collect(),
            told: BTreeMap::new(),
            runs_handed_back: BTreeSet::new(),
        };
        for (noted, execution) in &evidence.notes {
            match noted {
                Noted::Begin => *case.begun.entry(execution).or_default() += 1,
                Noted::Ok => _ = case.ok.insert(execution),
                Noted::Fail => _ = case.failed.insert(execution),
            }
        }
        for told in &evidence.journal {
            *case.told.entry((&told.unit, &told.action)).or_default() += 1;
            if told.action == "partition.handback" {
                case.runs_handed_back.extend(told.run_id.as_deref());
            }
        }
        case
    }

    /// How often the journal tells something of a unit.
    pub(super) fn told(&self, unit: &str, action: &str) -> usize {
        self.told.get(&(unit, action)).copied().unwrap_or_default()
    }

    /// How often a unit was taken from who held it without a row of the ledger.
    pub(super) fn let_go(&self, unit: &str) -> usize {
        let (kind, _) = unit.split_once(':').unwrap();
        self.told(unit, &format!("{kind}.handback")) + self.told(unit, "run.cancel")
    }
}
