//! The declaration of a pipeline.

use std::sync::Arc;

use redrive_core::{PipelineRules, PipelineRunId};
use redrive_store::{NewPipelineRun, Served};

use super::{SampleSource, Stage};

/// The default of [`Pipeline::read_ahead`].
pub const DEFAULT_READ_AHEAD: u32 = 10_000;

#[derive(Clone)]
pub struct Pipeline {
    pub name: String,
    pub source: Arc<dyn SampleSource>,
    /// Every sample passes the stages in this order.
    pub stages: Vec<Stage>,
    /// The failure budget, and which status a run ends with.
    pub rules: PipelineRules,
    /// The most unfinished samples of a run. The source is not read further until some end.
    pub read_ahead: u32,
    /// Serve only this run; by default, every run of the pipeline.
    pub run: Option<PipelineRunId>,
}

impl Pipeline {
    /// A pipeline without stages, with the default rules.
    pub fn new(name: impl Into<String>, source: Arc<dyn SampleSource>) -> Self {
        Self {
            name: name.into(),
            source,
            stages: Vec::new(),
            rules: PipelineRules::default(),
            read_ahead: DEFAULT_READ_AHEAD,
            run: None,
        }
    }

    /// Appends a stage.
    pub fn with_stage(mut self, stage: Stage) -> Self {
        self.stages.push(stage);
        self
    }

    pub fn with_rules(self, rules: PipelineRules) -> Self {
        Self { rules, ..self }
    }

    /// At least 1.
    pub fn with_read_ahead(self, read_ahead: u32) -> Self {
        Self { read_ahead: read_ahead.max(1), ..self }
    }

    pub fn of_run(self, run: PipelineRunId) -> Self {
        Self { run: Some(run), ..self }
    }

    pub fn new_run(&self) -> NewPipelineRun {
        NewPipelineRun {
            pipeline: self.name.clone(),
            stages: self.stage_names(),
            rules: self.rules.clone(),
            read_ahead: self.read_ahead,
            source: self.source.describe(),
        }
    }

    pub fn stage_names(&self) -> Vec<String> {
        self.stages.iter().map(|stage| stage.name.clone()).collect()
    }

    pub fn served(&self) -> Served {
        Served { pipeline: self.name.clone(), stages: self.stage_names(), run: self.run }
    }

    /// Stops the programs that the stages keep running.
    pub(crate) async fn release(&self) {
        for stage in &self.stages {
            stage.handler.release().await;
        }
    }
}
