//! Everything that operators and the daemon do to partitions goes through here (PAR-8, PAR-9, DMN-1).
//!
//! A command says what is wished and which rails it passes; a selection says of which partitions. What
//! becomes of each is foreseen by the same functions that the stores call when they write, so a dry run
//! is the real run without its last step. What was foreseen is guarded by how the partition was when it
//! was looked at: if somebody was faster, that is said and nothing is changed.
//!
//! A selection of any size is worked off page by page.

mod command;
mod outcome;
mod rules;
mod selection;
mod sweep;

use std::{collections::HashMap, sync::Arc};

use futures_util::{StreamExt, stream};
use redrive_core::{PartitionId, PartitionKey, PartitionState, RetryForecast};
use redrive_store::{NamedPartition, PartitionChange, PartitionRecord, Result, Store};

pub use command::{PartitionCommand, RunMode};
pub use outcome::{ChangeCounts, ChangeOutcome, ChangeRefusal, PartitionOutcome};
pub use rules::PartitionRules;
pub use selection::{KeyGrid, PartitionSelection};
pub use sweep::Sweep;

use crate::partitions::raw::RawSink;
use outcome::requests_retry;

/// How many keys the raw sink is asked about at once.
const RAW_LOOKUPS: usize = 16;

/// The control plane of partitions.
#[derive(Clone)]
pub struct Control {
    store: Arc<dyn Store>,
    rules: PartitionRules,
    raw: RawSink,
}

/// A partition that a command is for.
#[derive(Debug)]
enum SweepTarget {
    /// As it was read.
    Found(Box<PartitionRecord>),
    /// It has no entry.
    Absent(PartitionKey),
    /// Nobody looked, because nothing is to be decided before the store decides.
    Unread(PartitionKey),
}

impl Control {
    /// A control plane on a store and what its partitions left behind.
    pub fn new(store: Arc<dyn Store>, rules: PartitionRules, raw: RawSink) -> Self {
        Self { store, rules, raw }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// What decides about failed partitions.
    pub fn rules(&self) -> &PartitionRules {
        &self.rules
    }

    /// Where raw partitions are.
    pub fn raw(&self) -> &RawSink {
        &self.raw
    }

    /// WorkerSet a selection off, a page at a time.
    pub fn sweep<'a>(
        &'a self,
        command: &'a PartitionCommand,
        selection: &'a PartitionSelection,
        mode: RunMode,
    ) -> Sweep<'a> {
        Sweep::new(self, command, selection, mode)
    }

    /// How many partitions a command would change at most. The raw sink is not asked, so it may be fewer.
    pub async fn count(
        &self,
        command: &PartitionCommand,
        selection: &PartitionSelection,
    ) -> Result<u64> {
        if let PartitionSelection::Grid(grid) = selection {
            return Ok(grid.len());
        }
        let command = PartitionCommand { allow_missing_raw: true, ..command.clone() };
        let mut sweep = self.sweep(&command, selection, RunMode::DryRun);
        let mut tally = ChangeCounts::default();
        while let Some(page) = sweep.next().await? {
            page.iter().for_each(|outcome| tally.add(outcome));
        }
        Ok(tally.done)
    }

    /// Does it to partitions as they were read. One that has changed since is left alone.
    pub async fn change(
        &self,
        command: &PartitionCommand,
        partitions: Vec<PartitionRecord>,
        mode: RunMode,
    ) -> Result<Vec<PartitionOutcome>> {
        let looked = partitions.into_iter().map(|record| SweepTarget::Found(Box::new(record)));
        self.act(command, looked.collect(), mode).await
    }

    /// Does to partitions what a command wishes, or foresees it. One answer for each, in their order.
    async fn act(
        &self,
        command: &PartitionCommand,
        looked: Vec<SweepTarget>,
        mode: RunMode,
    ) -> Result<Vec<PartitionOutcome>> {
        let mut outcomes = self.plan(command, &looked).await;
        if mode == RunMode::DryRun {
            return Ok(outcomes);
        }
        let (mut named, mut places) = (Vec::new(), Vec::new());
        for (place, (looked, outcome)) in looked.iter().zip(&outcomes).enumerate() {
            if matches!(outcome.change, ChangeOutcome::Done(_)) {
                named.push(looked.named());
                places.push(place);
            }
        }
        if named.is_empty() {
            return Ok(outcomes);
        }
        let changes = self.store.change_partitions(&command.action, &named, &command.audit).await?;
        for (place, change) in places.into_iter().zip(changes) {
            if let Some(outcome) = outcomes.get_mut(place) {
                outcome.change = ChangeOutcome::of(command.action, change);
            }
        }
        Ok(outcomes)
    }

    /// What would become of each.
    async fn plan(
        &self,
        command: &PartitionCommand,
        looked: &[SweepTarget],
    ) -> Vec<PartitionOutcome> {
        let named: Vec<NamedPartition> = looked.iter().map(SweepTarget::named).collect();
        let mut outcomes: Vec<PartitionOutcome> = self
            .foresee(command, looked, &named)
            .into_iter()
            .zip(looked)
            .map(|(change, looked)| PartitionOutcome {
                key: looked.key().clone(),
                attempt_count: looked.record().map_or(0, |record| record.attempt_count),
                change: self.within_limits(
                    command,
                    looked,
                    ChangeOutcome::of(command.action, change),
                ),
            })
            .collect();
        if command.requires_raw() {
            self.refuse_missing_raw(&mut outcomes).await;
        }
        outcomes
    }

    /// What the store would answer, by the store's own rules.
    fn foresee(
        &self,
        command: &PartitionCommand,
        looked: &[SweepTarget],
        named: &[NamedPartition],
    ) -> Vec<PartitionChange> {
        if looked.iter().all(|looked| matches!(looked, SweepTarget::Unread(_))) {
            return vec![PartitionChange::Done(PartitionState::Absent); looked.len()];
        }
        let (mut found, mut made) = (HashMap::new(), HashMap::new());
        for looked in looked {
            match looked {
                SweepTarget::Found(record) => {
                    found.insert(record.key.clone(), (**record).clone());
                }
                SweepTarget::Absent(key) | SweepTarget::Unread(key)
                    if command.action.makes_entries() =>
                {
                    let at = command.audit.by.at;
                    let new = PartitionRecord::new(PartitionId(0), key.clone(), at);
                    made.insert(key.clone(), new);
                }
                SweepTarget::Absent(_) | SweepTarget::Unread(_) => {}
            }
        }
        let changes = command.action.changes(named, found, made, &command.audit);
        changes.into_iter().map(|(change, _)| change).collect()
    }

    /// A partition that a limit has ended is asked for again by those alone who say that they know.
    fn within_limits(
        &self,
        command: &PartitionCommand,
        looked: &SweepTarget,
        change: ChangeOutcome,
    ) -> ChangeOutcome {
        if command.override_limits
            || !requests_retry(command.action)
            || !matches!(change, ChangeOutcome::Done(_))
        {
            return change;
        }
        let now = command.audit.by.at;
        match looked.record().and_then(|record| self.rules.forecast(record, now)) {
            Some(RetryForecast::Terminal { reason }) => {
                ChangeOutcome::Refused(ChangeRefusal::Terminal(reason))
            }
            Some(RetryForecast::RetryAt { .. }) | None => change,
        }
    }

    /// Nothing was ever extracted for a key that the raw sink does not know; it may be mistyped, or its
    /// data gone.
    async fn refuse_missing_raw(&self, outcomes: &mut [PartitionOutcome]) {
        stream::iter(outcomes)
            .for_each_concurrent(RAW_LOOKUPS, |outcome| async {
                let ChangeOutcome::Done(state) = outcome.change else { return };
                match self.raw.runs(&outcome.key).await {
                    Ok(runs) if runs.is_empty() => {
                        outcome.change = ChangeOutcome::Refused(ChangeRefusal::NoRaw(state));
                    }
                    Ok(_) => {}
                    Err(error) => {
                        let problem = error.in_words();
                        outcome.change = ChangeOutcome::Refused(ChangeRefusal::RawUnavailable {
                            state,
                            problem,
                        });
                    }
                }
            })
            .await;
    }
}

impl SweepTarget {
    fn key(&self) -> &PartitionKey {
        match self {
            Self::Found(record) => &record.key,
            Self::Absent(key) | Self::Unread(key) => key,
        }
    }

    fn record(&self) -> Option<&PartitionRecord> {
        match self {
            Self::Found(record) => Some(record),
            Self::Absent(_) | Self::Unread(_) => None,
        }
    }

    fn named(&self) -> NamedPartition {
        match self {
            Self::Found(record) => NamedPartition::from(&**record),
            Self::Absent(key) | Self::Unread(key) => key.clone().into(),
        }
    }
}
