//! A queue as an engine serves it.

use std::{sync::Arc, time::Duration};

use redrive_core::{Policy, Preset};
use redrive_store::{Categories, GateRule, GateRules};

use crate::{
    handlers::handler::Handler,
    worker::{engine::DEFAULT_TIME_LIMIT, work::WorkerLimits},
};

/// A queue with the handler of its runs.
#[derive(Clone)]
pub struct Queue {
    pub name: String,
    /// The categories that this worker claims.
    pub categories: Categories,
    pub handler: Arc<dyn Handler>,
    /// When a failed run is retried.
    pub policy: Policy,
    /// The time limit of an attempt.
    pub time_limit: Duration,
    pub limits: WorkerLimits,
    /// The gates that the runs pass, with their category as the key.
    pub gates: GateRules,
}

impl Queue {
    /// A queue with the preset `run`, default limits, and all categories.
    pub fn new(name: impl Into<String>, handler: Arc<dyn Handler>) -> Self {
        Self {
            name: name.into(),
            categories: Categories::All,
            handler,
            policy: Preset::Run.policy(),
            time_limit: DEFAULT_TIME_LIMIT,
            limits: WorkerLimits::default(),
            gates: GateRules::default(),
        }
    }

    pub fn with_policy(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    /// Lets the runs pass gates.
    pub fn with_gates(self, gates: Vec<GateRule>) -> Self {
        Self { gates: gates.into(), ..self }
    }

    /// Sets the number of runs that are handled at once; at least 1.
    pub fn with_concurrency(self, concurrency: usize) -> Self {
        let limits = WorkerLimits { concurrency: concurrency.max(1), ..self.limits };
        Self { limits, ..self }
    }
}
