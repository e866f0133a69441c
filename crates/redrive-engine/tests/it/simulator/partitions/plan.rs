//! What a world of partitions is made of, before anything happens in it.

use std::time::Duration;

use redrive_core::{DateRange, Jitter, LogicalDate, PartitionKey, Policy, PolicySpec, Preset};
use redrive_engine::{KeyGrid, PartitionRules, WorkerLimits};
use redrive_store::Selection;

use crate::simulator::{chance::Chance, plan::Troubles};

/// A source without its extractor and judge, which each worker has its own of.
#[derive(Debug, Clone)]
pub(crate) struct SourcePlan {
    pub(crate) name: String,
    pub(crate) customers: Vec<String>,
    pub(crate) queries: Vec<String>,
    pub(crate) days: DateRange,
    pub(crate) policy: Policy,
    pub(crate) limits: WorkerLimits,
    pub(crate) time_limit: Duration,
    pub(crate) backfill_share: f64,
}

/// Everything that is fixed from the start.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) sources: Vec<SourcePlan>,
    pub(crate) workers: u64,
    pub(crate) daemons: u64,
    pub(crate) interval: Duration,
    pub(crate) troubles: Troubles,
    /// How long there are faults.
    pub(crate) rough: Duration,
}

impl Plan {
    pub(crate) fn new(chance: &mut Chance) -> Self {
        Self {
            sources: (0..chance.between(1, 2)).map(|n| SourcePlan::new(n, chance)).collect(),
            workers: chance.between(1, 3),
            daemons: chance.between(1, 3),
            interval: chance.millis(500, 5_000),
            troubles: Troubles::new(chance),
            rough: Duration::from_secs(chance.between(30, 90)),
        }
    }

    /// What decides about failed partitions, for everyone alike.
    pub(crate) fn rules(&self) -> PartitionRules {
        self.sources.iter().fold(PartitionRules::default(), |rules, source| {
            rules.with_policy(source.name.clone(), source.policy.clone())
        })
    }
}

impl SourcePlan {
    fn new(number: u64, chance: &mut Chance) -> Self {
        let names = |of: &str, count: u64| (0..count).map(|n| format!("{of}{n}")).collect();
        let since: LogicalDate = "2026-02-26".parse().unwrap();
        let mut until = since;
        for _ in 0..chance.between(0, 3) {
            until = until.next().unwrap();
        }
        let lease = *chance.pick(&[3_000, 6_000, 15_000]);
        Self {
            name: format!("s{number}"),
            customers: names("c", chance.between(1, 2)),
            queries: names("q", chance.between(1, 2)),
            days: DateRange::new(since, until).unwrap(),
            policy: policy(chance),
            limits: WorkerLimits {
                concurrency: *chance.pick(&[1, 2, 4]),
                lease: Duration::from_millis(lease),
                poll: Duration::from_millis(*chance.pick(&[500, 1_000, 3_000])),
                grace: Duration::from_millis(*chance.pick(&[500, 2_000])),
                log: redrive_engine::LogLimits::default(),
            },
            time_limit: chance.millis(lease / 3, lease * 3),
            backfill_share: *chance.pick(&[0.0, 0.3, 1.0]),
        }
    }

    /// Every key there can be.
    pub(crate) fn grid(&self) -> KeyGrid {
        KeyGrid::new(&self.name, &self.customers, &self.queries, self.days).unwrap()
    }

    pub(crate) fn some_key(&self, chance: &mut Chance) -> PartitionKey {
        let keys: Vec<PartitionKey> = self.grid().keys().collect();
        chance.pick(&keys).clone()
    }

    /// A filter that leaves more or less.
    pub(crate) fn some_filter(&self, chance: &mut Chance) -> Selection {
        let key = self.some_key(chance);
        let filter = Selection {
            source: Some(self.name.clone()),
            customer_id: chance.one_in(2).then(|| key.customer_id().to_owned()),
            query_name: chance.one_in(2).then(|| key.query_name().to_owned()),
            ..Selection::default()
        };
        if chance.one_in(2) { filter.on(key.logical_date()) } else { filter }
    }
}

fn policy(chance: &mut Chance) -> Policy {
    let base = chance.millis(500, 8_000);
    let jitter = match chance.between(0, 2) {
        0 => Jitter::None,
        1 => Jitter::Absolute(base / 3),
        _ => Jitter::Full,
    };
    Policy::new(PolicySpec {
        max_attempts: chance.one_in(3).then(|| chance.between(2, 6) as u32),
        max_age: chance.one_in(4).then(|| chance.millis(20_000, 120_000)),
        base,
        cap: base * chance.between(1, 16) as u32,
        jitter,
        ..Preset::Partition.spec()
    })
    .unwrap()
}
