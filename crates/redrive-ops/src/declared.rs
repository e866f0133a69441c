//! The declarations of the configuration that views and explanations need.

use redrive_core::{JitterSeed, Policy};
use redrive_engine::DailyCalendar;

#[derive(Debug, Clone, Default)]
pub struct Declarations {
    pub jitter_seed: JitterSeed,
    /// Named policies in addition to the presets.
    pub policies: Vec<(String, Policy)>,
    pub queues: Vec<DeclaredQueue>,
    pub sources: Vec<DeclaredSource>,
    pub uploads: Vec<DeclaredUpload>,
    pub pipelines: Vec<DeclaredPipeline>,
}

#[derive(Debug, Clone)]
pub struct DeclaredQueue {
    pub name: String,
    pub policy: Policy,
    /// The categories that the queue accepts; `None` accepts all.
    pub categories: Option<Vec<String>>,
}

#[derive(Debug, Clone)]
pub struct DeclaredSource {
    pub name: String,
    pub customers: Vec<String>,
    pub queries: Vec<String>,
    /// The expected days; `None` when the source has no schedule.
    pub calendar: Option<DailyCalendar>,
}

#[derive(Debug, Clone)]
pub struct DeclaredUpload {
    pub name: String,
    /// Rejections before an item is given up; `None` means no limit.
    pub max_attempts: Option<u32>,
}

#[derive(Debug, Clone)]
pub struct DeclaredPipeline {
    pub name: String,
    /// The stages in order, each with its policy.
    pub stages: Vec<(String, Policy)>,
}

impl Declarations {
    pub fn queue(&self, name: &str) -> Option<&DeclaredQueue> {
        self.queues.iter().find(|queue| queue.name == name)
    }

    pub fn source(&self, name: &str) -> Option<&DeclaredSource> {
        self.sources.iter().find(|source| source.name == name)
    }

    pub fn upload(&self, name: &str) -> Option<&DeclaredUpload> {
        self.uploads.iter().find(|upload| upload.name == name)
    }

    pub fn pipeline(&self, name: &str) -> Option<&DeclaredPipeline> {
        self.pipelines.iter().find(|pipeline| pipeline.name == name)
    }
}
