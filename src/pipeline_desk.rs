//! What every command about pipelines and dead letters starts from.

use std::sync::Arc;

use redrive::{
    PipelineControl, PipelineRunFilter, PipelineRunId, PipelineRunRecord, config::Config,
};
use redrive_store::Store;

use crate::{
    context::{ChosenStore, Context, Missing},
    exit::{Exit, Failure},
};

/// The configuration, the store, and what may be done there.
pub(crate) struct PipelineDesk {
    /// What is declared, if there is a file.
    pub(crate) config: Option<Config>,
    /// Which store it is.
    pub(crate) chosen: ChosenStore,
    /// The store.
    pub(crate) store: Arc<dyn Store>,
    /// What operators do.
    pub(crate) control: PipelineControl,
}

impl PipelineDesk {
    /// Opens the store.
    pub(crate) async fn open(context: &Context, missing: Missing) -> Result<Self, Failure> {
        let config = context.config()?;
        let chosen = context.store(config.as_ref())?;
        let store = chosen.open(config.as_ref(), missing).await?;
        let control = PipelineControl::new(store.clone());
        Ok(Self { config, chosen, store, control })
    }

    /// What the store says when it cannot be used.
    pub(crate) fn failure(&self, error: redrive_store::Error) -> Failure {
        self.chosen.failure(error)
    }

    /// A run.
    pub(crate) async fn run(&self, id: PipelineRunId) -> Result<PipelineRunRecord, Failure> {
        let run = self.control.run(id).await.map_err(|error| self.failure(error))?;
        run.ok_or_else(|| {
            let message = format!("there is no pipeline run {id} in {}", self.chosen.url);
            Failure::new(Exit::Error, message).help("`redrive pipeline list` shows what there is")
        })
    }

    /// The newest run, of a pipeline or of any.
    pub(crate) async fn newest(
        &self,
        pipeline: Option<String>,
    ) -> Result<PipelineRunRecord, Failure> {
        let whose = pipeline.as_ref().map(|name| format!(" of {name:?}")).unwrap_or_default();
        let filter = PipelineRunFilter { pipeline, status: None };
        let page = self.store.pipeline_runs_page(&filter, PipelineRunId(i64::MAX), 1).await;
        let newest = page.map_err(|error| self.failure(error))?.pop();
        newest.ok_or_else(|| {
            let message = format!("there is no pipeline run{whose} in {}", self.chosen.url);
            Failure::new(Exit::Error, message).help("`redrive pipeline run NAME` starts one")
        })
    }
}
