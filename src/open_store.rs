//! What every command starts from that looks at a store or changes something there: the configuration, and
//! the desk that the API and the dashboard share.

use std::ops::Deref;

use redrive::{
    PartitionRules, PipelineRunId, PipelineRunRecord, build_declarations, build_partition_rules,
    config::Config,
};

use crate::{
    context::{ChosenStore, Context, IfMissing},
    environment::environment,
    exit::{CommandError, Exit},
};

/// All of it.
pub(crate) struct OpenStore {
    /// What is declared, if there is a file.
    pub(crate) config: Option<Config>,
    /// Which store it is.
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
    /// Opens the store.
    pub(crate) async fn open(context: &Context, missing: IfMissing) -> Result<Self, CommandError> {
        let config = context.config()?;
        let chosen = context.store(config.as_ref())?;
        let raw = context.raw(config.as_ref())?;
        let store = chosen.open(config.as_ref(), missing).await?;
        let known = config.as_ref().map(build_declarations).transpose().map_err(|error| {
            CommandError::new(Exit::Error, "the configuration cannot be used").caused_by(error)
        })?;
        let rules = config.as_ref().map_or_else(PartitionRules::default, build_partition_rules);
        let ops = redrive_ops::Ops::new(store, known, rules, raw)
            .with_surroundings(environment(context, &chosen));
        Ok(Self { config, chosen, ops })
    }

    /// What the store says when it cannot be used.
    pub(crate) fn store_error(&self, error: redrive_store::Error) -> CommandError {
        self.chosen.store_error(error)
    }

    /// A run of a pipeline.
    pub(crate) async fn pipeline_run(
        &self,
        id: PipelineRunId,
    ) -> Result<PipelineRunRecord, CommandError> {
        let run = self.pipelines().run(id).await.map_err(|error| self.store_error(error))?;
        run.ok_or_else(|| {
            let message = format!("there is no pipeline run {id} in {}", self.chosen.url);
            CommandError::new(Exit::Error, message)
                .help("`redrive pipeline list` shows what there is")
        })
    }

    /// The newest run, of a pipeline or of any.
    pub(crate) async fn newest_run(
        &self,
        pipeline: Option<String>,
    ) -> Result<PipelineRunRecord, CommandError> {
        let whose = pipeline.as_ref().map(|name| format!(" of {name:?}")).unwrap_or_default();
        let newest = self.newest_pipeline_run(pipeline).await;
        newest.map_err(|error| self.store_error(error))?.ok_or_else(|| {
            let message = format!("there is no pipeline run{whose} in {}", self.chosen.url);
            CommandError::new(Exit::Error, message).help("`redrive pipeline run NAME` starts one")
        })
    }
}
