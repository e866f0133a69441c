//! What a world of pipelines is made of, before anything happens in it.

use std::{sync::Arc, time::Duration};

use redrive_core::{FailureBudget, PipelineRules, Policy};
use redrive_engine::{Handler, Pipeline, SampleSource, Stage, WorkerLimits};

use super::super::{
    chance::Chance,
    plan::{Troubles, policy},
};

/// The pipeline of every world.
pub(super) const PIPELINE: &str = "p";

#[derive(Debug, Clone)]
pub(crate) struct StagePlan {
    pub(super) name: String,
    pub(super) policy: Policy,
    pub(super) limits: WorkerLimits,
    pub(super) time_limit: Duration,
}

/// Everything that is fixed from the start.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) stages: Vec<StagePlan>,
    pub(crate) rules: PipelineRules,
    pub(crate) runs: u64,
    /// Lines of the source, some of which are blank or no samples.
    pub(crate) lines: u64,
    pub(crate) read_ahead: u32,
    pub(crate) workers: u64,
    pub(crate) troubles: Troubles,
    /// Whether attempts are often longer than a lease.
    pub(crate) long: bool,
    /// How long there are faults.
    pub(crate) rough: Duration,
    pub(crate) jitter_seed: u64,
}

impl Plan {
    pub(crate) fn new(chance: &mut Chance) -> Self {
        let stages = (0..chance.between(1, 3)).map(|n| StagePlan::new(n, chance)).collect();
        let budget = FailureBudget {
            rate: *chance.pick(&[0.1, 0.5, 1.0]),
            every: chance.between(3, 30),
            min_samples: *chance.pick(&[0, 10]),
            exclude: if chance.one_in(3) { vec!["rate_limited".to_owned()] } else { Vec::new() },
        };
        Self {
            stages,
            rules: PipelineRules { budget, ..PipelineRules::default() },
            runs: chance.between(1, 2),
            lines: *chance.pick(&[0, 1, 20, 40, 60, 80, 120]),
            read_ahead: *chance.pick(&[1, 4, 10, 50, 1_000]),
            workers: *chance.pick(&[1, 2, 3, 3, 4]),
            troubles: Troubles::new(chance),
            long: chance.one_in(3),
            rough: Duration::from_secs(chance.between(20, 120)),
            jitter_seed: chance.next(),
        }
    }

    /// The rules that no failure is too much for.
    pub(super) fn lenient(&self) -> PipelineRules {
        let budget = FailureBudget { rate: 1.0, ..self.rules.budget.clone() };
        PipelineRules { budget, ..self.rules.clone() }
    }

    pub(super) fn stage(&self, name: &str) -> &StagePlan {
        self.stages.iter().find(|stage| stage.name == name).unwrap()
    }

    pub(super) fn pipeline(
        &self,
        source: Arc<dyn SampleSource>,
        handler: &Arc<dyn Handler>,
    ) -> Pipeline {
        let pipeline = Pipeline::new(PIPELINE, source)
            .with_rules(self.rules.clone())
            .with_read_ahead(self.read_ahead);
        self.stages.iter().fold(pipeline, |pipeline, plan| {
            let stage = Stage::new(plan.name.as_str(), handler.clone());
            pipeline.with_stage(Stage {
                policy: plan.policy.clone(),
                limits: plan.limits,
                time_limit: plan.time_limit,
                ..stage
            })
        })
    }
}

impl StagePlan {
    fn new(number: u64, chance: &mut Chance) -> Self {
        let lease = *chance.pick(&[3_000, 6_000, 15_000]);
        let limits = WorkerLimits {
            concurrency: *chance.pick(&[1, 2, 3, 5, 8]),
            lease: Duration::from_millis(lease),
            poll: Duration::from_millis(*chance.pick(&[500, 1_000, 3_000])),
            grace: Duration::from_millis(*chance.pick(&[500, 2_000, 10_000])),
            log: redrive_engine::LogLimits::default(),
        };
        let time_limit = chance.millis(lease / 3, lease * 4);
        Self { name: format!("s{number}"), policy: policy(chance), limits, time_limit }
    }
}

/// A line of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    Sample,
    Blank,
    Bad,
}

impl Line {
    pub(super) fn of(seed: u64, number: u64) -> Self {
        match Chance::of(&[seed, number]).between(0, 19) {
            0 => Self::Blank,
            1 => Self::Bad,
            _ => Self::Sample,
        }
    }

    pub(super) fn text(self, number: u64) -> String {
        match self {
            Self::Sample => format!("{{\"line\":{number},\"trail\":[]}}\n"),
            Self::Blank => " \n".to_owned(),
            Self::Bad => "not a sample\n".to_owned(),
        }
    }
}
