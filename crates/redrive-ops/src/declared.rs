//! What the configuration declares, as far as it matters to those who look.

use redrive_core::{JitterSeed, Policy};
use redrive_engine::DailyCalendar;

/// All of it.
#[derive(Debug, Clone, Default)]
pub struct Declarations {
    /// The seed of all jitter.
    pub jitter_seed: JitterSeed,
    /// Policies by name, beside the presets.
    pub policies: Vec<(String, Policy)>,
    /// Runs and who handles them.
    pub queues: Vec<DeclaredQueue>,
    /// Partitions and who extracts them.
    pub sources: Vec<DeclaredSource>,
    /// Where items go.
    pub uploads: Vec<DeclaredUpload>,
    /// Samples and their stages.
    pub pipelines: Vec<DeclaredPipeline>,
}

/// A queue.
#[derive(Debug, Clone)]
pub struct DeclaredQueue {
    /// Its name.
    pub name: String,
    /// What decides about its runs.
    pub policy: Policy,
    /// The categories it takes; all, unless given.
    pub categories: Option<Vec<String>>,
}

/// A source.
#[derive(Debug, Clone)]
pub struct DeclaredSource {
    /// Its name.
    pub name: String,
    /// Whose data it has.
    pub customers: Vec<String>,
    /// What is asked for.
    pub queries: Vec<String>,
    /// The days it should have; unknown, unless given.
    pub calendar: Option<DailyCalendar>,
}

/// An upload.
#[derive(Debug, Clone)]
pub struct DeclaredUpload {
    /// Its name.
    pub name: String,
    /// How many rejections an item may have; without end, unless given.
    pub max_attempts: Option<u32>,
}

/// A pipeline.
#[derive(Debug, Clone)]
pub struct DeclaredPipeline {
    /// Its name.
    pub name: String,
    /// Its stages, in order, with what decides about samples there.
    pub stages: Vec<(String, Policy)>,
}

impl Declarations {
    /// The queue of that name.
    pub fn queue(&self, name: &str) -> Option<&DeclaredQueue> {
        self.queues.iter().find(|queue| queue.name == name)
    }

    /// The source of that name.
    pub fn source(&self, name: &str) -> Option<&DeclaredSource> {
        self.sources.iter().find(|source| source.name == name)
    }

    /// The upload of that name.
    pub fn upload(&self, name: &str) -> Option<&DeclaredUpload> {
        self.uploads.iter().find(|upload| upload.name == name)
    }

    /// The pipeline of that name.
    pub fn pipeline(&self, name: &str) -> Option<&DeclaredPipeline> {
        self.pipelines.iter().find(|pipeline| pipeline.name == name)
    }
}
