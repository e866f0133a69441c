//! A source of partitions: its extractor, its validation rules and its schedule.

use std::{sync::Arc, time::Duration};

use redrive_store::{GateRule, GateRules};

use crate::{
    DaySchedule, Extractor, WorkerLimits,
    partitions::{
        raw::RawSink,
        validator::{ValidationHandler, ValidationRules},
    },
    worker::engine::DEFAULT_TIME_LIMIT,
};

/// The default share of backfill: three of ten partitions.
pub const DEFAULT_BACKFILL_SHARE: f64 = 0.3;

#[derive(Clone)]
pub struct Source {
    /// The first part of every key.
    pub name: String,
    pub extractor: Arc<dyn Extractor>,
    pub sink: RawSink,
    /// Checks in addition to those that every partition must pass.
    pub rules: ValidationRules,
    /// Used when the extractor does not report a schema version.
    pub schema_version: Option<String>,
    /// The share of claims that goes to backfill while both lanes have work, from 0 to 1.
    pub backfill_share: f64,
    /// Without a schedule, partitions are created by operators only.
    pub schedule: Option<DaySchedule>,
    /// The time limit of one extraction.
    pub time_limit: Duration,
    pub limits: WorkerLimits,
    /// The gates that the partitions pass, with their customer as the key.
    pub gates: GateRules,
}

impl Source {
    /// A source with the default limits and backfill share, no rules and no schedule.
    pub fn new(name: impl Into<String>, extractor: Arc<dyn Extractor>, sink: RawSink) -> Self {
        Self {
            name: name.into(),
            extractor,
            sink,
            rules: ValidationRules::default(),
            schema_version: None,
            backfill_share: DEFAULT_BACKFILL_SHARE,
            schedule: None,
            time_limit: DEFAULT_TIME_LIMIT,
            limits: WorkerLimits::default(),
            gates: GateRules::default(),
        }
    }

    pub fn with_rules(self, rules: ValidationRules) -> Self {
        Self { rules, ..self }
    }

    pub fn with_schedule(self, schedule: DaySchedule) -> Self {
        Self { schedule: Some(schedule), ..self }
    }

    /// Lets the partitions pass gates.
    pub fn with_gates(self, gates: Vec<GateRule>) -> Self {
        Self { gates: gates.into(), ..self }
    }

    pub fn with_concurrency(self, concurrency: usize) -> Self {
        let limits = WorkerLimits { concurrency: concurrency.max(1), ..self.limits };
        Self { limits, ..self }
    }

    /// Concurrent partitions: the configured number, or less if the extractor or the validation handler
    /// has less capacity.
    pub(crate) fn concurrency(&self) -> usize {
        let validation = self.rules.handler.as_ref();
        let validation = validation.and_then(|validation| validation.handler.capacity());
        let limits = [self.extractor.capacity(), validation];
        limits.into_iter().flatten().fold(self.limits.concurrency, usize::min)
    }

    /// How often programs of the handlers were started again after a failure.
    pub(crate) fn restarts(&self) -> u64 {
        let validation = self.rules.handler.as_ref();
        self.extractor.restarts() + validation.map_or(0, |validation| validation.handler.restarts())
    }

    /// Stops the programs that the handlers keep running.
    pub(crate) async fn release(&self) {
        self.extractor.release().await;
        if let Some(ValidationHandler { handler, .. }) = &self.rules.handler {
            handler.release().await;
        }
    }
}
