//! What the gates of a claim let through.
//!
//! A store reads the rows of the gates in the transaction of the claim, takes no more units of a key than [`ClaimGates::allowed`] says,
//! and writes what [`ClaimGates::let_through`] returns for those that it took.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, HashSet},
    time::Duration,
};

use jiff::Timestamp;
use redrive_core::GateStatus;

use crate::{GateRecord, GateRule, GateRules, JournalEntry, WorkerId};

/// How a unit was let through.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GatePass {
    /// Whether the unit is the probe of one of its gates.
    pub is_probe: bool,
    /// Whether the unit has permits. Without any it was let through open gates without limits.
    pub has_permit: bool,
    /// The epoch of each gate, in the order of the rules, if the claim read it: not that of an open gate without limits.
    pub epochs: Vec<Option<u64>>,
    /// When the unit may start, and until when it must have; on the clock of leases.
    pub start: Option<StartWindow>,
    /// What a sample passes the gates with, if the claim read the gates: its stage may have another pointer since.
    pub key: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartWindow {
    pub from: Timestamp,
    pub until: Timestamp,
}

/// A unit that was claimed: its id, the epoch of its lease, and its key.
#[derive(Debug, Clone, Copy)]
pub struct LetThrough<'a> {
    pub id: i64,
    pub epoch: i64,
    pub key: &'a str,
}

/// A permit: a unit that counts for a gate until its lease ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatePermit {
    pub gate: String,
    pub key: String,
    pub unit_id: i64,
    pub lease_epoch: i64,
    pub gate_epoch: u64,
}

/// What the gates of a claim allow, from rows that were read in its transaction.
#[derive(Debug)]
pub struct ClaimGates {
    rules: GateRules,
    /// Rows that are not open, and those of gates with limits.
    rows: BTreeMap<(String, String), GateRecord>,
    /// Rows that were shut until now, and nothing has passed for long.
    opened: Vec<GateRecord>,
    journal: Vec<JournalEntry>,
    now: Timestamp,
    clock: Timestamp,
}

/// What a claim writes about its gates.
#[derive(Debug, Default)]
pub struct ClaimGateWrites {
    pub rows: Vec<GateRecord>,
    pub journal: Vec<JournalEntry>,
    pub permits: Vec<GatePermit>,
    /// In the order of the claimed units.
    pub passes: Vec<GatePass>,
}

impl ClaimGates {
    /// `present` are the keys with units to claim. A key that has none, and was closed long ago, opens by itself.
    pub fn new(
        rules: GateRules,
        rows: Vec<GateRecord>,
        present: &[String],
        by: &WorkerId,
        now: Timestamp,
        clock: Timestamp,
    ) -> Self {
        let present: HashSet<&str> = present.iter().map(String::as_str).collect();
        let (mut shut, mut opened, mut journal) = (BTreeMap::new(), Vec::new(), Vec::new());
        for mut row in rows {
            let rule = rules.iter().find(|rule| rule.name == row.gate);
            let before = row.state.clone();
            if let Some(rule) = rule
                && rule.is_keyed
                && !present.contains(&*row.key)
                && row.state.open_idle(&rule.settings, row.held, now)
            {
                journal.push(row.entry(now, &by.0, &before));
                opened.push(row);
            } else {
                shut.insert((row.gate.clone(), row.key.clone()), row);
            }
        }
        Self { rules, rows: shut, opened, journal, now, clock }
    }

    /// Whether a claim has to know the rows of open keys too.
    pub fn limits_open_keys(rules: &[GateRule]) -> bool {
        rules.iter().any(|rule| rule.settings.limits_open_keys())
    }

    /// How many units of all keys a claim takes, and of each key that has some, if it is wanted.
    pub fn allowed(
        &self,
        present: Vec<String>,
        is_wanted: impl Fn(&String) -> bool,
        limit: u32,
    ) -> (u32, Vec<(String, u32)>) {
        let undivided = self.rules.iter().filter(|rule| !rule.is_keyed);
        let limit = self.most_of(undivided, "", limit);
        let most = present.into_iter().filter(is_wanted).map(|key| {
            let most = self.most_of(self.rules.iter(), &key, limit);
            (key, most)
        });
        (limit, most.filter(|(_, most)| *most > 0).collect())
    }

    fn most_of<'a>(&self, rules: impl Iterator<Item = &'a GateRule>, key: &str, limit: u32) -> u32 {
        let allowed = |rule: &GateRule| {
            let fresh;
            let row = match self.rows.get(&(rule.name.clone(), rule.key(key).to_owned())) {
                Some(row) => row,
                None => {
                    fresh = GateRecord::new(&rule.name, rule.key(key));
                    &fresh
                }
            };
            row.state.admits(&rule.settings, row.held, self.now, self.clock)
        };
        rules.filter_map(allowed).min().unwrap_or(limit).min(limit)
    }

    /// Lets claimed units through. A unit that passes several gates with a rate starts when all of them let it, and takes that
    /// time of each: times of its own from each might never meet. Units that can start first take their times first, so that
    /// a key which must wait takes no early time of a gate that it shares. `clock` was read after the claim.
    pub fn let_through(self, units: &[LetThrough<'_>], clock: Timestamp) -> ClaimGateWrites {
        let Self { rules, mut rows, opened, journal, .. } = self;
        let mut writes = ClaimGateWrites { rows: opened, journal, ..ClaimGateWrites::default() };
        let mut touched: BTreeMap<(String, String), GateRecord> = BTreeMap::new();
        let mut names = Vec::with_capacity(units.len());
        for unit in units {
            let of_unit =
                rules.iter().map(|rule| (rule.name.clone(), rule.key(unit.key).to_owned()));
            let of_unit: Vec<(String, String)> = of_unit.collect();
            for (rule, name) in rules.iter().zip(&of_unit) {
                if let Some(row) = rows.remove(name) {
                    touched.insert(name.clone(), row);
                } else if rule.settings.limits_open_keys() && !touched.contains_key(name) {
                    touched.insert(name.clone(), GateRecord::new(&name.0, &name.1));
                }
            }
            names.push(of_unit);
        }
        let earliest = |touched: &BTreeMap<(String, String), GateRecord>,
                        names: &[(String, String)]| {
            let starts = rules.iter().zip(names).filter_map(|(rule, name)| {
                touched.get(name)?.state.next_start(&rule.settings, clock)
            });
            starts.max()
        };
        let mut passes = vec![GatePass::default(); units.len()];
        let first = (0..).zip(&names).map(|(at, names)| Reverse((earliest(&touched, names), at)));
        let mut waiting: BinaryHeap<Reverse<(Option<Timestamp>, usize)>> = first.collect();
        while let Some(Reverse((expected, at))) = waiting.pop() {
            let (Some(unit), Some(names), Some(pass)) =
                (units.get(at), names.get(at), passes.get_mut(at))
            else {
                continue;
            };
            let start = earliest(&touched, names);
            if start > expected {
                waiting.push(Reverse((start, at)));
                continue;
            }
            for (rule, name) in rules.iter().zip(names) {
                let Some(row) = touched.get_mut(name) else {
                    pass.epochs.push(None);
                    continue;
                };
                row.state.let_through();
                pass.is_probe |= row.state.status == GateStatus::Probing;
                pass.epochs.push(Some(row.state.epoch));
                if let Some(from) = start
                    && let Some(lateness) = row.state.take_start(&rule.settings, from)
                {
                    pass.note(StartWindow::new(from, lateness));
                }
                if row.state.needs_permits(&rule.settings) {
                    pass.has_permit = true;
                    writes.permits.push(GatePermit {
                        gate: row.gate.clone(),
                        key: row.key.clone(),
                        unit_id: unit.id,
                        lease_epoch: unit.epoch,
                        gate_epoch: row.state.epoch,
                    });
                }
            }
        }
        writes.passes = passes;
        writes.rows.extend(touched.into_values());
        writes
    }
}

impl StartWindow {
    fn new(from: Timestamp, lateness: Duration) -> Self {
        Self { from, until: from.checked_add(lateness).unwrap_or(Timestamp::MAX) }
    }
}

impl GatePass {
    /// The strictest gate says how late the unit may start.
    fn note(&mut self, window: StartWindow) {
        let until = self.start.map_or(window.until, |start| start.until.min(window.until));
        self.start = Some(StartWindow { from: window.from, until });
    }
}
