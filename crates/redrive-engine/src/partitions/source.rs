//! A source: who extracts its partitions, who judges them, and when new ones are due.

use std::{sync::Arc, time::Duration};

use crate::{
    DaySchedule, Extractor, WorkerLimits,
    partitions::{
        raw::RawSink,
        validator::{ValidationHandler, ValidationRules},
    },
    worker::engine::DEFAULT_TIME_LIMIT,
};

/// The share of backfill unless a source says otherwise: three of ten partitions.
pub const DEFAULT_BACKFILL_SHARE: f64 = 0.3;

/// Where partitions come from.
#[derive(Clone)]
pub struct Source {
    /// Its name, the first part of every key.
    pub name: String,
    /// Who extracts.
    pub extractor: Arc<dyn Extractor>,
    /// Where raw partitions are kept.
    pub sink: RawSink,
    /// What the validator asks beyond its own checks.
    pub rules: ValidationRules,
    /// The schema of its rows, where the extractor says nothing of it.
    pub schema_version: Option<String>,
    /// The share of the work that goes to backfill while there is fresh data as well.
    pub backfill_share: f64,
    /// When partitions become due by themselves, if they do.
    pub schedule: Option<DaySchedule>,
    /// How long an extraction may take.
    pub time_limit: Duration,
    /// How many at once, and how patiently.
    pub limits: WorkerLimits,
}

impl Source {
    /// A source with the default pace, time limit and share, no rules and no schedule.
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
        }
    }

    /// With rules for the validator.
    pub fn with_rules(self, rules: ValidationRules) -> Self {
        Self { rules, ..self }
    }

    /// With a schedule.
    pub fn with_schedule(self, schedule: DaySchedule) -> Self {
        Self { schedule: Some(schedule), ..self }
    }

    /// With so many partitions at once.
    pub fn with_concurrency(self, concurrency: usize) -> Self {
        let limits = WorkerLimits { concurrency: concurrency.max(1), ..self.limits };
        Self { limits, ..self }
    }

    /// How many partitions are worked on at once: no more than any of its handlers can.
    pub(crate) fn concurrency(&self) -> usize {
        let judge = self.rules.handler.as_ref().and_then(|judge| judge.handler.capacity());
        let limits = [self.extractor.capacity(), judge];
        limits.into_iter().flatten().fold(self.limits.concurrency, usize::min)
    }

    /// Ends what its handlers keep running.
    pub(crate) async fn release(&self) {
        self.extractor.release().await;
        if let Some(ValidationHandler { handler, .. }) = &self.rules.handler {
            handler.release().await;
        }
    }
}
