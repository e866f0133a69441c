//! Read and write access for the command line, the API and the dashboard.

use std::sync::Arc;

use jiff::Timestamp;
use redrive_core::JitterSeed;
use redrive_engine::{
    Clock, Consumer, Content, Control, PartitionRules, PipelineControl, Prune, RawSink,
    SystemClock, checker, verify_partitions,
};
use redrive_store::{PruneFilter, Result, Store};

use crate::{Declarations, Environment, views::MigrationView};

/// A store with the configuration that declares its units, and the controls that change them.
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
    /// `declared` is `None` without a configuration.
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

    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    pub fn with_environment(self, environment: Environment) -> Self {
        Self { environment, ..self }
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        self.partitions.store()
    }

    /// `None` without a configuration.
    pub fn declared(&self) -> Option<&Declarations> {
        self.declared.as_ref()
    }

    /// The actions of operators and the daemon on partitions.
    pub fn partitions(&self) -> &Control {
        &self.partitions
    }

    /// The actions of operators on pipeline runs and dead letters.
    pub fn pipelines(&self) -> &PipelineControl {
        &self.pipelines
    }

    /// The storage of item content.
    pub fn content(&self) -> &Arc<dyn Content> {
        &self.content
    }

    pub fn consumer(&self) -> Consumer {
        Consumer::new(self.store().clone(), self.partitions.raw().clone())
            .with_rules(self.partitions.rules().clone())
            .with_clock(self.clock.clone())
    }

    /// Compares every partition with its ledger and its raw data. Reads everything and changes nothing.
    pub async fn verify(&self) -> Result<checker::Report> {
        verify_partitions(&**self.store(), self.partitions.raw()).await
    }

    pub fn prune(&self, filter: PruneFilter) -> Prune {
        Prune::new(self.store().clone(), filter, self.clock.clone())
    }

    /// Applied migrations, then pending ones.
    pub async fn migrations(&self) -> Result<Vec<MigrationView>> {
        Ok(MigrationView::all(&self.store().schema().await?))
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    pub fn jitter_seed(&self) -> JitterSeed {
        self.declared.as_ref().map(|declared| declared.jitter_seed).unwrap_or_default()
    }
}
