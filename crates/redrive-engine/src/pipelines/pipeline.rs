//! What a pipeline is.

use std::sync::Arc;

use redrive_core::{PipelineRules, PipelineRunId};
use redrive_store::{NewPipelineRun, Served};

use super::{SampleSource, Stage};

/// How many unfinished samples are kept at a time unless a pipeline says otherwise.
pub const DEFAULT_READ_AHEAD: u32 = 10_000;

/// Samples that go through stages.
#[derive(Clone)]
pub struct Pipeline {
    /// Its name.
    pub name: String,
    /// Where samples come from.
    pub source: Arc<dyn SampleSource>,
    /// What happens to a sample, in order.
    pub stages: Vec<Stage>,
    /// How a run is judged.
    pub rules: PipelineRules,
    /// How many unfinished samples are kept at a time.
    pub read_ahead: u32,
    /// Serve this run alone; every run if none.
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

    /// With one more stage, after those it has.
    pub fn with_stage(mut self, stage: Stage) -> Self {
        self.stages.push(stage);
        self
    }

    /// Judged by these rules.
    pub fn with_rules(self, rules: PipelineRules) -> Self {
        Self { rules, ..self }
    }

    /// With so many unfinished samples at a time.
    pub fn with_read_ahead(self, read_ahead: u32) -> Self {
        Self { read_ahead: read_ahead.max(1), ..self }
    }

    /// Serving one run alone.
    pub fn of_run(self, run: PipelineRunId) -> Self {
        Self { run: Some(run), ..self }
    }

    /// A run of it to begin.
    pub fn new_run(&self) -> NewPipelineRun {
        NewPipelineRun {
            pipeline: self.name.clone(),
            stages: self.stage_names(),
            rules: self.rules.clone(),
            read_ahead: self.read_ahead,
            source: self.source.describe(),
        }
    }

    /// The names of its stages, in order.
    pub fn stage_names(&self) -> Vec<String> {
        self.stages.iter().map(|stage| stage.name.clone()).collect()
    }

    /// Which runs are served.
    pub fn served(&self) -> Served {
        Served { pipeline: self.name.clone(), stages: self.stage_names(), run: self.run }
    }

    /// Ends what its stages keep running.
    pub(crate) async fn release(&self) {
        for stage in &self.stages {
            stage.handler.release().await;
        }
    }
}
