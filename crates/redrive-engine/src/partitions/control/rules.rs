//! The retry policies of partitions, one for each source.

use std::collections::HashMap;

use jiff::Timestamp;
use redrive_core::{
    FailedPartition, JitterKey, JitterSeed, PartitionKey, Policy, Preset, RetryForecast, Unit,
};
use redrive_store::{PartitionRecord, Selection};

/// The policies of the sources, and the seed of their jitter. A source without a policy uses the preset
/// `partition`.
#[derive(Debug, Clone)]
pub struct PartitionRules {
    policies: HashMap<String, Policy>,
    preset: Policy,
    jitter_seed: JitterSeed,
}

impl Default for PartitionRules {
    fn default() -> Self {
        Self::new(JitterSeed::default())
    }
}

impl PartitionRules {
    /// Uses the preset for every source.
    pub fn new(jitter_seed: JitterSeed) -> Self {
        Self { policies: HashMap::new(), preset: Preset::Partition.policy(), jitter_seed }
    }

    pub fn with_policy(mut self, source: impl Into<String>, policy: Policy) -> Self {
        self.policies.insert(source.into(), policy);
        self
    }

    pub fn policy(&self, source: &str) -> &Policy {
        self.policies.get(source).unwrap_or(&self.preset)
    }

    /// When a partition is retried; none unless the partition is failed.
    pub fn forecast(&self, partition: &PartitionRecord, now: Timestamp) -> Option<RetryForecast> {
        Some(self.forecast_failed(&partition.key, partition.failed()?, now))
    }

    /// Whether a partition that a store has found is meant: policies, not stores, know which failed ones wait.
    pub fn selects(
        &self,
        selection: &Selection,
        partition: &PartitionRecord,
        now: Timestamp,
    ) -> bool {
        selection.waiting().is_none_or(|waiting| {
            let forecast = self.forecast(partition, now);
            waiting != matches!(forecast, Some(RetryForecast::Terminal { .. }))
        })
    }

    /// When a partition with this failure is retried.
    pub fn forecast_failed(
        &self,
        key: &PartitionKey,
        failed: FailedPartition<'_>,
        now: Timestamp,
    ) -> RetryForecast {
        let jitter = JitterKey::new(self.jitter_seed, &Unit::Partition(key.clone()));
        RetryForecast::of(failed, self.policy(key.source()), now, jitter)
    }
}
