//! The gates that the units of one loop pass.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use redrive_core::{Class, Failure, History, Policy, START_HORIZON};
use redrive_store::{
    ClaimGates, GateDeclarations, GatePass, GateRule, GateRules, PassedGates, Result, StartWindow,
    Store,
};
use tokio::{sync::watch, time::Instant};

use crate::{
    gates::{closed_time::note_closed_time, known_gates::KnownGates},
    worker::unit_leases::WorkContext,
};

/// Keys that are remembered as noted; further ones are noted again now and then.
const MAX_NOTED: usize = 100_000;

/// The longest rest between two claims while units wait for start times.
const MAX_BETWEEN_CLAIMS: Duration = Duration::from_secs(1);

pub(crate) struct WorkGates {
    rules: GateRules,
    declared: Arc<GateDeclarations>,
    known: Arc<KnownGates>,
    /// Whether the store knows of the gates.
    is_declared: AtomicBool,
    /// Keys that have rows.
    noted: Mutex<HashSet<String>>,
}

/// Whether a claimed unit may be started now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    Now,
    At(StartWindow),
    /// Its gate is no longer open.
    KeptBack,
}

impl WorkGates {
    pub(crate) fn new(
        rules: GateRules,
        declared: Arc<GateDeclarations>,
        known: Arc<KnownGates>,
    ) -> Self {
        let (is_declared, noted) = (AtomicBool::new(rules.is_empty()), Mutex::default());
        Self { rules, declared, known, is_declared, noted }
    }

    /// The gates for a claim, which the store knows from then on.
    pub(crate) async fn rules(&self, store: &dyn Store, now: Timestamp) -> Result<GateRules> {
        if !self.is_declared.load(Ordering::Relaxed) {
            store.declare_gates(&self.declared, now).await?;
            self.is_declared.store(true, Ordering::Relaxed);
        }
        Ok(self.rules.clone())
    }

    /// Adds rows for keys that were never seen, so that every key that units pass with has one. What fails is noted later.
    pub(crate) async fn note(&self, store: &dyn Store, keys: impl Iterator<Item = &str>) {
        if let Err(error) = self.add_rows(store, keys).await {
            let error = &error as &dyn std::error::Error;
            tracing::debug!(error, "cannot note the keys of gates");
        }
    }

    /// Notes how long the gates of units were closed since their first attempts, where that does not count towards `max_age`.
    pub(crate) async fn note_closed_time<'a>(
        &self,
        context: &WorkContext,
        policy: &Policy,
        units: impl Iterator<Item = (&'a str, &'a mut History)>,
    ) {
        let now = context.clock.now();
        note_closed_time(&*context.store, &self.rules, policy, now, units).await;
    }

    async fn add_rows(&self, store: &dyn Store, keys: impl Iterator<Item = &str>) -> Result<()> {
        let keyed: Vec<&str> =
            self.rules.iter().filter(|rule| rule.is_keyed).map(|rule| rule.name.as_str()).collect();
        if keyed.is_empty() {
            return Ok(());
        }
        let new: HashSet<&str> = {
            let noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
            keys.filter(|key| !noted.contains(*key)).collect()
        };
        let rows: Vec<(&str, &str)> =
            new.iter().flat_map(|key| keyed.iter().map(move |gate| (*gate, *key))).collect();
        store.note_gate_keys(&rows).await?;
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.len() > MAX_NOTED {
            noted.clear();
        }
        noted.extend(new.into_iter().map(str::to_owned));
        Ok(())
    }

    /// If the service has limited a unit, what was claimed ahead is kept back before the result is written.
    pub(crate) fn failed(&self, key: &str, failure: &Failure) {
        if !matches!(failure.class(), Class::RateLimited { .. }) {
            return;
        }
        for rule in self.rules.iter() {
            self.known.note_shut(&rule.name, rule.key(key));
        }
    }

    /// Changes when a gate of this process closes; `None` without gates.
    pub(crate) fn changes(&self) -> Option<watch::Receiver<()>> {
        (!self.rules.is_empty()).then(|| self.known.changes())
    }

    /// Whether the gates let as many units through as are claimed, or none of a key: no limit and no step says how many.
    pub(crate) fn let_all_through(&self, now: Timestamp) -> bool {
        !ClaimGates::limits_open_keys(&self.rules)
            && !self.known.let_some_through(|gate| self.has(gate), now)
    }

    fn has(&self, gate: &str) -> bool {
        self.rules.iter().any(|rule| rule.name == gate)
    }

    /// Whether a unit may be started at any time: there are no gates.
    pub(crate) fn are_open(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether a result that is being written closes a gate: the store would still let units through.
    #[cfg(feature = "http")]
    pub(crate) fn is_closing(&self, key: &str) -> bool {
        self.rules.iter().any(|rule| self.known.is_closing(&rule.name, rule.key(key)))
    }

    /// A gate that lets no unit of a key through now.
    #[cfg(feature = "http")]
    pub(crate) fn first_shut(&self, key: &str) -> Option<String> {
        let shut = |rule: &&GateRule| self.known.is_shut(&rule.name, rule.key(key));
        self.rules.iter().find(shut).map(|rule| redrive_store::gate_name(&rule.name, rule.key(key)))
    }

    /// What a finish tells the gates; `None` without gates.
    pub(crate) fn passed(&self, key: &str) -> Option<PassedGates> {
        let has_gates = !self.rules.is_empty();
        has_gates.then(|| PassedGates { rules: self.rules.clone(), key: key.to_owned() })
    }

    /// When a claim may take more than now: at the `due` time of the next unit, when the period of a gate ends, or soon if units
    /// are ready that have to wait for start times.
    pub(crate) fn next_due(
        &self,
        due: Option<Timestamp>,
        has_ready: bool,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let ended = self.known.next_end(|gate| self.has(gate), now);
        let again = (has_ready && self.gives_start_times()).then(|| now + self.between_claims());
        [due, ended, again].into_iter().flatten().min()
    }

    /// Whether units may have to wait for start times, and some may be let through soon.
    pub(crate) fn gives_start_times(&self) -> bool {
        let mut undivided = self.rules.iter().filter(|rule| !rule.is_keyed);
        self.rules.iter().any(|rule| rule.settings.rate().is_some())
            && !undivided.any(|rule| self.known.is_shut(&rule.name, ""))
    }

    /// Start times are taken a moment ahead, so a claim that found none is made again within that moment, or within a small part
    /// of the time between two starts.
    fn between_claims(&self) -> Duration {
        let rates = self.rules.iter().filter_map(|rule| rule.settings.rate());
        let apart = rates.map(|rate| rate.period() / rate.units().max(1)).min();
        (apart.unwrap_or_default() / 16).clamp(START_HORIZON / 2, MAX_BETWEEN_CLAIMS)
    }

    /// Whether a unit that was let through may be started: not if one of its gates has closed since.
    pub(crate) fn start(&self, pass: &GatePass, key: &str, claimed_at: Instant) -> Start {
        let has_closed = |(at, rule): (usize, &GateRule)| {
            let epoch = pass.epochs.get(at).copied().flatten();
            self.known.has_closed(&rule.name, rule.key(key), epoch, claimed_at)
        };
        if self.rules.iter().enumerate().any(has_closed) {
            return Start::KeptBack;
        }
        pass.start.map_or(Start::Now, Start::At)
    }
}
