//! Where everyone comes who wants to see something or have something done.

use std::sync::Arc;

use jiff::Timestamp;
use redrive_core::JitterSeed;
use redrive_engine::{
    Clock, Content, Control, PartitionRules, PipelineControl, RawSink, SystemClock,
};
use redrive_store::Store;

use crate::Declared;

/// A store, what is declared about it, and the controls.
#[derive(Clone)]
pub struct Desk {
    declared: Option<Declared>,
    partitions: Control,
    pipelines: PipelineControl,
    content: Arc<dyn Content>,
    clock: Arc<dyn Clock>,
}

impl Desk {
    /// For a store. `declared` is what the configuration says, if there is one.
    pub fn new(
        store: Arc<dyn Store>,
        declared: Option<Declared>,
        rules: PartitionRules,
        raw: RawSink,
    ) -> Self {
        Self {
            declared,
            pipelines: PipelineControl::new(store.clone()),
            content: raw.content(),
            partitions: Control::new(store, rules, raw),
            clock: Arc::new(SystemClock),
        }
    }

    /// With another clock.
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        self.partitions.store()
    }

    /// What is declared, if there is a configuration.
    pub fn declared(&self) -> Option<&Declared> {
        self.declared.as_ref()
    }

    /// What operators and the daemon do to partitions.
    pub fn partitions(&self) -> &Control {
        &self.partitions
    }

    /// What operators do to pipeline runs and dead letters.
    pub fn pipelines(&self) -> &PipelineControl {
        &self.pipelines
    }

    /// Where the content of items is kept.
    pub fn content(&self) -> &Arc<dyn Content> {
        &self.content
    }

    /// What time it is.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn jitter_seed(&self) -> JitterSeed {
        self.declared.as_ref().map(|declared| declared.jitter_seed).unwrap_or_default()
    }
}
