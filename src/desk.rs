//! What every command about partitions starts from: the configuration, the store, and what the control
//! plane needs besides.

use redrive::{PartitionRules, config::Config, declared_partition_rules};
use redrive_engine::Control;

use crate::{
    context::{ChosenStore, Context, Missing},
    exit::Failure,
};

/// All of it.
pub(crate) struct Desk {
    /// What is declared, if there is a file.
    pub(crate) config: Option<Config>,
    /// Which store it is.
    pub(crate) chosen: ChosenStore,
    /// The control plane.
    pub(crate) control: Control,
}

impl Desk {
    /// Opens the store.
    pub(crate) async fn open(context: &Context, missing: Missing) -> Result<Self, Failure> {
        let config = context.config()?;
        let chosen = context.store(config.as_ref())?;
        let raw = context.raw(config.as_ref())?;
        let store = chosen.open(config.as_ref(), missing).await?;
        let rules = config.as_ref().map_or_else(PartitionRules::default, declared_partition_rules);
        Ok(Self { config, chosen, control: Control::new(store, rules, raw) })
    }

    /// What the store says when it cannot be used.
    pub(crate) fn failure(&self, error: redrive_store::Error) -> Failure {
        self.chosen.failure(error)
    }
}
