//! Where everyone comes who wants to see something or have something done.

use std::sync::Arc;

use jiff::Timestamp;
use redrive_core::JitterSeed;
use redrive_engine::{
    Clock, Consumer, Content, Control, PartitionRules, PipelineControl, Prune, RawSink,
    SystemClock, checker, verify_partitions,
};
use redrive_store::{PruneFilter, Result, Store};

use crate::{Declarations, Environment, views::MigrationView};

/// A store, what is declared about it, and the controls.
#[derive(Clone)]
pub struct Ops {
    declared: Option<Declarations>,
    partitions: Control,
    pipelines: PipelineControl,
    content: Arc<dyn Content>,
    clock: Arc<dyn Clock>,
    environment: Environment,
}

impl Ops {
    /// For a store. `declared` is what the configuration says, if there is one.
    pub fn new(
        store: Arc<dyn Store>,
        declared: Option<Declarations>,
        rules: PartitionRules,
        raw: RawSink,
    ) -> Self {
        Self {
            declared,
            pipelines: PipelineControl::new(store.clone()),
            content: raw.content(),
            partitions: Control::new(store, rules, raw),
            clock: Arc::new(SystemClock),
            environment: Environment::default(),
        }
    }

    /// With another clock.
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// With what it cannot see by itself.
    pub fn with_environment(self, environment: Environment) -> Self {
        Self { environment, ..self }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        self.partitions.store()
    }

    /// What is declared, if there is a configuration.
    pub fn declared(&self) -> Option<&Declarations> {
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

    /// What reads good partitions.
    pub fn consumer(&self) -> Consumer {
        Consumer::new(self.store().clone(), self.partitions.raw().clone())
    }

    /// Every partition against its ledger and its raw data. Reads everything, and changes nothing.
    pub async fn verify(&self) -> Result<checker::Report> {
        verify_partitions(&**self.store(), self.partitions.raw()).await
    }

    /// What takes out of the store what a filter says.
    pub fn prune(&self, filter: PruneFilter) -> Prune {
        Prune::new(self.store().clone(), filter, self.clock.clone())
    }

    /// Which migrations the store has, and which of those that are known it has not.
    pub async fn migrations(&self) -> Result<Vec<MigrationView>> {
        Ok(MigrationView::all(&self.store().schema().await?))
    }

    /// What time it is.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The seed of all jitter.
    pub fn jitter_seed(&self) -> JitterSeed {
        self.declared.as_ref().map(|declared| declared.jitter_seed).unwrap_or_default()
    }
}
