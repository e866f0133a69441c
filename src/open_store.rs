//! The opened store with its configuration, for commands that read or change state through `redrive-ops`.

use std::{ops::Deref, sync::Arc};

use redrive::{
    PartitionRules, PipelineRunId, PipelineRunRecord, build_declarations, build_partition_rules,
    config::Config,
};
use redrive_ops::{Declarations, UndeclaredName};
use redrive_store::Store;

use crate::{
    context::{ChosenStore, Context, IfMissing},
    environment::environment,
    exit::{CommandError, Exit},
};

/// Dereferences to the [`redrive_ops::Ops`] that the API and the dashboard use too.
pub(crate) struct OpenStore {
    /// `None` without a configuration file.
    pub(crate) config: Option<Config>,
    pub(crate) chosen: ChosenStore,
    ops: redrive_ops::Ops,
}

impl Deref for OpenStore {
    type Target = redrive_ops::Ops;

    fn deref(&self) -> &redrive_ops::Ops {
        &self.ops
    }
}

impl OpenStore {
    pub(crate) async fn open(context: &Context, missing: IfMissing) -> Result<Self, CommandError> {
        let config = context.config()?;
        let chosen = context.store(config.as_ref())?;
        let store = chosen.open(config.as_ref(), missing).await?;
        Self::over(store, chosen, config, context)
    }

    /// A store that is open already.
    pub(crate) fn over(
        store: Arc<dyn Store>,
        chosen: ChosenStore,
        config: Option<Config>,
        context: &Context,
    ) -> Result<Self, CommandError> {
        let raw = context.raw(config.as_ref())?;
        let declarations = config.as_ref().map(declarations).transpose()?;
        let rules = config.as_ref().map_or_else(PartitionRules::default, build_partition_rules);
        let ops = redrive_ops::Ops::new(store, declarations, rules, raw)
            .with_environment(environment(context, &chosen));
        Ok(Self { config, chosen, ops })
    }

    pub(crate) fn store_error(&self, error: redrive_store::Error) -> CommandError {
        self.chosen.store_error(error)
    }

    pub(crate) async fn pipeline_run(
        &self,
        id: PipelineRunId,
    ) -> Result<PipelineRunRecord, CommandError> {
        let run = self.pipelines().run(id).await.map_err(|error| self.store_error(error))?;
        run.ok_or_else(|| {
            let message = format!("there is no pipeline run {id} in {}", self.chosen.url);
            CommandError::new(Exit::Error, message).help("`redrive pipeline list` shows all runs")
        })
    }

    /// The newest run of one pipeline, or of all pipelines.
    pub(crate) async fn newest_run(
        &self,
        pipeline: Option<String>,
    ) -> Result<PipelineRunRecord, CommandError> {
        let of_pipeline = pipeline.as_ref().map(|name| format!(" of {name:?}")).unwrap_or_default();
        let newest = self.newest_pipeline_run(pipeline).await;
        newest.map_err(|error| self.store_error(error))?.ok_or_else(|| {
            let message = format!("there is no pipeline run{of_pipeline} in {}", self.chosen.url);
            CommandError::new(Exit::Error, message).help("`redrive pipeline run NAME` starts one")
        })
    }
}

pub(crate) fn declarations(config: &Config) -> Result<Declarations, CommandError> {
    build_declarations(config).map_err(|error| {
        CommandError::new(Exit::Error, "cannot use the configuration").caused_by(error)
    })
}

/// Refuses a name that the configuration does not declare, before a store is created.
pub(crate) fn expect_declared(
    context: &Context,
    expect: impl FnOnce(&Declarations) -> Result<(), UndeclaredName>,
) -> Result<(), CommandError> {
    let Some(config) = context.config()? else { return Ok(()) };
    expect(&declarations(&config)?).map_err(|unknown| {
        let UndeclaredName { kind, name, help } = unknown;
        let message = format!("the configuration declares no {kind} {name:?}; nothing was changed");
        CommandError::new(Exit::Refused, message)
            .help(format!("{help} (--allow-unknown says that the name is intended)"))
    })
}
