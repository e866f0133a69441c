//! The control plane: every change that operators and the daemon make to partitions (PAR-8, PAR-9, DMN-1).
//!
//! A [`PartitionCommand`] is applied to a [`PartitionSelection`]. [`Control`] plans the outcome of each
//! partition with the same functions that the stores use when they write, so a dry run is a real run without
//! the write. A write applies only if the partition is still as it was read; otherwise the partition is left
//! alone and reported as [`ChangeRefusal::Moved`]. A selection of any size is processed page by page.
//!
//! - `command`: the action, its audit context and its overrides
//! - `selection`: the partitions that a command is for
//! - `rules`: the policy of each source
//! - `outcome`: what happened to a partition, and why a change was refused
//! - `bulk_change`: processes a selection page by page

mod command;
mod selection;

mod rules;

mod outcome;

mod bulk_change;

use std::{collections::HashMap, sync::Arc};

use futures_util::{StreamExt, stream};
use redrive_core::{PartitionId, PartitionKey, PartitionState, RetryForecast};
use redrive_store::{
    NamedPartition, Operator, PartitionChange, PartitionRecord, PlanAction, Result, Selection,
    Store,
};

pub use bulk_change::Sweep;
pub use command::{PartitionCommand, RunMode};
pub use outcome::{ChangeOutcome, ChangeRefusal, PartitionOutcome};
pub use rules::PartitionRules;
pub use selection::{KeyGrid, PartitionSelection};

use crate::partitions::raw::RawSink;
use outcome::requests_retry;
use selection::applies_to;

/// Concurrent lookups in the raw sink.
const RAW_LOOKUPS: usize = 16;

#[derive(Clone)]
pub struct Control {
    store: Arc<dyn Store>,
    rules: PartitionRules,
    raw: RawSink,
}

/// Partitions that a plan must not change now, by id.
#[derive(Debug, Default)]
pub(crate) struct PlanRefusals {
    pub(crate) refused: Vec<(i64, String)>,
    /// The first one about which the raw sink says nothing, because it cannot be read.
    pub(crate) unreadable: Option<(i64, String)>,
}

/// A partition that a command is for.
#[derive(Debug)]
enum SweepTarget {
    Found(Box<PartitionRecord>),
    Absent(PartitionKey),
    /// Not read, because the store alone decides ([`PartitionCommand::needs_no_read`]).
    Unread(PartitionKey),
}

impl Control {
    pub fn new(store: Arc<dyn Store>, rules: PartitionRules, raw: RawSink) -> Self {
        Self { store, rules, raw }
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub fn rules(&self) -> &PartitionRules {
        &self.rules
    }

    pub fn raw(&self) -> &RawSink {
        &self.raw
    }

    /// Applies a command to a selection, a page at a time.
    pub fn sweep<'a>(
        &'a self,
        command: &'a PartitionCommand,
        selection: &'a PartitionSelection,
        mode: RunMode,
    ) -> Sweep<'a> {
        Sweep::new(self, command, selection, mode)
    }

    /// Applies a command to partitions that the caller has read. A partition that changed since is left alone.
    pub async fn change(
        &self,
        command: &PartitionCommand,
        partitions: Vec<PartitionRecord>,
        mode: RunMode,
    ) -> Result<Vec<PartitionOutcome>> {
        let targets = partitions.into_iter().map(|record| SweepTarget::Found(Box::new(record)));
        self.apply(command, targets.collect(), mode).await
    }

    /// Applies a command to partitions by name, as far as the caller has found them.
    pub async fn change_named(
        &self,
        command: &PartitionCommand,
        keys: &[PartitionKey],
        found: Vec<Option<PartitionRecord>>,
        mode: RunMode,
    ) -> Result<Vec<PartitionOutcome>> {
        let target = |(key, found): (&PartitionKey, Option<PartitionRecord>)| match found {
            Some(record) => SweepTarget::Found(Box::new(record)),
            None => SweepTarget::Absent(key.clone()),
        };
        self.apply(command, keys.iter().zip(found).map(target).collect(), mode).await
    }

    /// What a plan would do to partitions, with the rails of the commands (PAR-8, FIX-4); without those that the selection
    /// or the action does not mean.
    pub(crate) async fn judge(
        &self,
        action: PlanAction,
        selection: &Selection,
        partitions: Vec<PartitionRecord>,
        by: &Operator,
    ) -> Vec<(PartitionRecord, ChangeOutcome)> {
        let Some(command) = PartitionCommand::of_plan(action, by) else { return Vec::new() };
        let is_meant = |record: &PartitionRecord| {
            applies_to(command.action, record) && self.rules.selects(selection, record, by.at)
        };
        let meant = partitions.into_iter().filter(is_meant);
        let targets: Vec<SweepTarget> = meant.map(|it| SweepTarget::Found(Box::new(it))).collect();
        let outcomes = self.plan(&command, &targets).await;
        let judged = targets.into_iter().zip(outcomes);
        let judged = judged.filter_map(|(target, outcome)| match target {
            SweepTarget::Found(record) => Some((*record, outcome.change)),
            SweepTarget::Absent(_) | SweepTarget::Unread(_) => None,
        });
        judged.collect()
    }

    /// Why a plan must no longer change some of its partitions: their raw data is gone, or their policy has given them up
    /// since.
    pub(crate) async fn plan_refusals(
        &self,
        action: PlanAction,
        partitions: Vec<PartitionRecord>,
        by: &Operator,
    ) -> PlanRefusals {
        let mut refusals = PlanRefusals::default();
        for (partition, outcome) in self.judge(action, &Selection::default(), partitions, by).await
        {
            let ChangeOutcome::Refused(refusal) = outcome else { continue };
            let (id, why) = (partition.id.0, refusal.to_string());
            if matches!(refusal, ChangeRefusal::RawUnavailable { .. }) {
                let first = refusals.unreadable.take().filter(|(first, _)| *first < id);
                refusals.unreadable = first.or(Some((id, why)));
            } else if refusal.is_overridable() {
                refusals.refused.push((id, why));
            }
        }
        refusals
    }

    /// Applies a command, or plans it in a dry run. One outcome for each target, in their order.
    async fn apply(
        &self,
        command: &PartitionCommand,
        targets: Vec<SweepTarget>,
        mode: RunMode,
    ) -> Result<Vec<PartitionOutcome>> {
        let mut outcomes = self.plan(command, &targets).await;
        if mode == RunMode::DryRun {
            return Ok(outcomes);
        }
        let (mut named, mut indices) = (Vec::new(), Vec::new());
        for (index, (target, outcome)) in targets.iter().zip(&outcomes).enumerate() {
            if matches!(outcome.change, ChangeOutcome::Done(_)) {
                named.push(target.named());
                indices.push(index);
            }
        }
        if named.is_empty() {
            return Ok(outcomes);
        }
        let changes = self.store.change_partitions(&command.action, &named, &command.audit).await?;
        for (index, change) in indices.into_iter().zip(changes) {
            if let Some(outcome) = outcomes.get_mut(index) {
                outcome.change = ChangeOutcome::of(command.action, change);
            }
        }
        Ok(outcomes)
    }

    async fn plan(
        &self,
        command: &PartitionCommand,
        targets: &[SweepTarget],
    ) -> Vec<PartitionOutcome> {
        let named: Vec<NamedPartition> = targets.iter().map(SweepTarget::named).collect();
        let mut outcomes: Vec<PartitionOutcome> = self
            .predict(command, targets, &named)
            .into_iter()
            .zip(targets)
            .map(|(change, target)| PartitionOutcome {
                key: target.key().clone(),
                attempt_count: target.record().map_or(0, |record| record.attempt_count),
                change: self.within_limits(
                    command,
                    target,
                    ChangeOutcome::of(command.action, change),
                ),
            })
            .collect();
        let judged = outcomes.iter_mut().zip(targets).filter(|(_, target)| {
            target.record().is_some_and(|record| command.requires_raw(record))
        });
        let judged: Vec<&mut PartitionOutcome> = judged.map(|(outcome, _)| outcome).collect();
        self.refuse_missing_raw(judged).await;
        outcomes
    }

    /// The changes that the store would make, computed with the store's own rules.
    fn predict(
        &self,
        command: &PartitionCommand,
        targets: &[SweepTarget],
        named: &[NamedPartition],
    ) -> Vec<PartitionChange> {
        if targets.iter().all(|target| matches!(target, SweepTarget::Unread(_))) {
            return vec![PartitionChange::Done(PartitionState::Absent); targets.len()];
        }
        let (mut found, mut created) = (HashMap::new(), HashMap::new());
        for target in targets {
            match target {
                SweepTarget::Found(record) => {
                    found.insert(record.key.clone(), (**record).clone());
                }
                SweepTarget::Absent(key) | SweepTarget::Unread(key)
                    if command.action.makes_entries() =>
                {
                    let at = command.audit.by.at;
                    let new = PartitionRecord::new(PartitionId(0), key.clone(), at);
                    created.insert(key.clone(), new);
                }
                SweepTarget::Absent(_) | SweepTarget::Unread(_) => {}
            }
        }
        let changes = command.action.changes(named, found, created, &command.audit);
        changes.into_iter().map(|(change, _)| change).collect()
    }

    /// Refuses the retry of a partition that a limit of its policy has made terminal, unless the command
    /// overrides limits.
    fn within_limits(
        &self,
        command: &PartitionCommand,
        target: &SweepTarget,
        change: ChangeOutcome,
    ) -> ChangeOutcome {
        if command.override_limits
            || !requests_retry(command.action)
            || !matches!(change, ChangeOutcome::Done(_))
        {
            return change;
        }
        let now = command.audit.by.at;
        match target.record().and_then(|record| self.rules.forecast(record, now)) {
            Some(RetryForecast::Terminal { reason }) => {
                ChangeOutcome::Refused(ChangeRefusal::Terminal(reason))
            }
            Some(RetryForecast::RetryAt { .. }) | None => change,
        }
    }

    /// Refuses partitions for which the raw sink holds no run: the key may be mistyped, or the data lost.
    async fn refuse_missing_raw(&self, outcomes: Vec<&mut PartitionOutcome>) {
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
