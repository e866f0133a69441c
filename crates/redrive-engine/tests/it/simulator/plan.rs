//! What a world is made of, before anything happens in it.

use std::{sync::Arc, time::Duration};

use redrive_core::{Backoff, Code, Jitter, Policy, PolicySpec, Retriable};
use redrive_engine::{Handler, Queue, WorkerLimits};
use redrive_store::{Categories, GateRules};

use super::chance::Chance;

/// The categories that runs come in.
pub(crate) const CATEGORIES: [&str; 4] = ["", "fast", "slow", "odd"];

/// A queue without its handler, which each worker has its own of.
#[derive(Debug, Clone)]
pub(crate) struct QueuePlan {
    pub(crate) name: String,
    pub(crate) policy: Policy,
    pub(crate) categories: Categories,
    pub(crate) limits: WorkerLimits,
    pub(crate) time_limit: Duration,
    pub(crate) gates: GateRules,
}

/// Which kinds of trouble a world knows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Troubles {
    pub(crate) weather: bool,
    pub(crate) crashes: bool,
    pub(crate) freezes: bool,
    pub(crate) restarts: bool,
    pub(crate) jumps: bool,
    pub(crate) operators: bool,
}

/// Everything that is fixed from the start.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) queues: Vec<QueuePlan>,
    pub(crate) workers: u64,
    pub(crate) submissions: u64,
    pub(crate) troubles: Troubles,
    /// Whether attempts are often longer than a lease.
    pub(crate) long: bool,
    /// How long there are faults.
    pub(crate) rough: Duration,
    pub(crate) jitter_seed: u64,
}

impl Plan {
    pub(crate) fn new(chance: &mut Chance) -> Self {
        let queues = (0..chance.between(1, 3)).map(|n| QueuePlan::new(n, chance)).collect();
        Self {
            queues,
            workers: *chance.pick(&[1, 2, 3, 3, 4, 4]),
            submissions: *chance.pick(&[20, 40, 60, 80, 120, 200]),
            troubles: Troubles::new(chance),
            long: chance.one_in(2),
            rough: Duration::from_secs(chance.between(20, 80)),
            jitter_seed: chance.next(),
        }
    }

    pub(crate) fn queue(&self, name: &str) -> &QueuePlan {
        self.queues.iter().find(|queue| queue.name == name).unwrap()
    }
}

impl Troubles {
    /// One world in ten has none, which must not be noticed by anyone.
    pub(crate) fn new(chance: &mut Chance) -> Self {
        let any = !chance.one_in(10);
        Self {
            weather: any && chance.permille(700),
            crashes: any && chance.permille(500),
            freezes: any && chance.permille(700),
            restarts: any && chance.permille(500),
            jumps: any && chance.permille(500),
            operators: any && chance.permille(500),
        }
    }
}

impl QueuePlan {
    fn new(number: u64, chance: &mut Chance) -> Self {
        let lease = *chance.pick(&[3_000, 3_000, 6_000, 15_000, 30_000]);
        let categories = match chance.between(0, 9) {
            0..=7 => Categories::All,
            _ => {
                let allowed = CATEGORIES.iter().filter(|_| !chance.one_in(3));
                Categories::Only(allowed.map(|name| (*name).to_owned()).collect())
            }
        };
        let limits = WorkerLimits {
            concurrency: *chance.pick(&[1, 2, 3, 5, 8]),
            lease: Duration::from_millis(lease),
            poll: Duration::from_millis(*chance.pick(&[500, 1_000, 3_000])),
            grace: Duration::from_millis(*chance.pick(&[500, 2_000, 10_000])),
            log: redrive_engine::LogLimits::default(),
        };
        let time_limit = chance.millis(lease / 3, lease * 4);
        let policy = policy(chance);
        let (name, gates) = (format!("q{number}"), GateRules::default());
        Self { name, policy, categories, limits, time_limit, gates }
    }

    pub(crate) fn allows(&self, category: &str) -> bool {
        match &self.categories {
            Categories::All => true,
            Categories::Only(allowed) => allowed.iter().any(|name| name == category),
        }
    }

    pub(crate) fn handled_by(&self, handler: Arc<dyn Handler>) -> Queue {
        Queue {
            name: self.name.clone(),
            categories: self.categories.clone(),
            handler,
            policy: self.policy.clone(),
            time_limit: self.time_limit,
            limits: self.limits,
            gates: self.gates.clone(),
        }
    }
}

pub(super) fn policy(chance: &mut Chance) -> Policy {
    let slowest = *chance.pick(&[200, 2_000, 10_000]);
    let base = chance.millis(10, slowest);
    let jitter = match chance.between(0, 3) {
        0 => Jitter::None,
        1 => Jitter::Absolute(chance.millis(1, 5_000)),
        2 => Jitter::Fraction(chance.between(1, 100) as f64 / 100.0),
        _ => Jitter::Full,
    };
    let codes = ["503", "75", "panic", "timeout", "lost_worker"];
    let retriable = match chance.between(0, 9) {
        0 => Retriable::None,
        1 => Retriable::All,
        2 => {
            let some = codes.iter().filter(|_| chance.one_in(2));
            Retriable::Codes(some.map(|code| code.parse::<Code>().unwrap()).collect())
        }
        _ => Retriable::ByClass,
    };
    Policy::new(PolicySpec {
        max_attempts: (!chance.one_in(10)).then(|| chance.between(1, 6) as u32),
        max_age: chance.one_in(4).then(|| chance.millis(2_000, 120_000)),
        backoff: *chance.pick(&Backoff::ALL),
        base,
        multiplier: chance.between(100, 300) as f64 / 100.0,
        cap: base * chance.between(1, 8) as u32,
        jitter,
        retriable,
        max_hint: chance.millis(500, 30_000),
        max_deferrals: chance.between(1, 4) as u32,
        max_lost: chance.one_in(3).then(|| chance.between(1, 4) as u32),
        max_logical_age: None,
        rules: Vec::new(),
    })
    .unwrap()
}
