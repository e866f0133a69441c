//! The configuration: one file, `redrive.toml`.
//!
//! It is found from the working folder upwards, or named. Relative paths count from its folder,
//! durations are written like `5m`, keys in kebab-case, and secrets stand in it only as names of
//! environment variables. A file is good or it is refused as a whole, with every problem pointing at
//! its line: a worker must never run on half of what was meant.
//!
//! ```
//! let text = r#"
//!     [[queue]]
//!     name = "verify"
//!     handler = { exec = ["./verify.sh"] }
//!     policy = { max-attempts = 5, base = "2s" }
//! "#;
//! let config = redrive::config::parse(text, "redrive.toml", "/etc/redrive".as_ref())?;
//! assert_eq!(config.queues[0].policy.policy.spec().max_attempts, Some(5));
//! # Ok::<(), redrive::config::ConfigReport>(())
//! ```

mod file;
mod problem;
mod syntax;

mod log;
mod path;
mod reader;
mod value;

mod policy;

mod handler;
mod http;
mod limits;

mod queue;

mod schedule;
mod source;

mod upload;

mod pipeline;

mod notify;

mod prune;
mod raw;
mod server;
mod store;
mod up;

mod schema;

use std::path::{Path, PathBuf};

use redrive_core::JitterSeed;
use toml::de::{DeTable, DeValue};

pub use file::{ConfigFileError, FILE_NAME, find};
pub use handler::{HandlerConfig, ProgramConfig, StreamConfig};
pub use http::HttpConfig;
pub use limits::LimitsConfig;
pub use notify::{NotifierConfig, NotifyEvent};
pub use pipeline::{PipelineConfig, SampleSourceConfig, StageConfig};
pub use policy::{Policies, PolicyChoice};
pub use problem::{ConfigProblem, ConfigReport};
pub use prune::PruneConfig;
pub use queue::QueueConfig;
pub use raw::{InvalidRawUrl, RawUrl};
pub use schedule::{ScheduleConfig, ScheduleInterval};
pub use schema::SCHEMA;
pub use server::ServerConfig;
pub use source::{SourceConfig, ValidationConfig};
pub use store::{StoreConfig, StoreLocation, SynchronousMode};
pub use up::UpConfig;
pub use upload::UploadConfig;

use log::{ReadLog, UniqueNames};
use reader::{Section, Value};
use value::whole;

use crate::nearest::suggestion;

/// All that a configuration file says, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// The folder of the file, from which relative paths count.
    pub folder: PathBuf,
    /// The seed of all jitter.
    pub jitter_seed: JitterSeed,
    /// Where state is kept.
    pub store: StoreConfig,
    /// Where raw partitions are kept.
    pub raw: RawUrl,
    /// Where the API and the dashboard listen.
    pub server: ServerConfig,
    /// ScheduleInterval policy that has a name.
    pub policies: Policies,
    /// Runs and who handles them.
    pub queues: Vec<QueueConfig>,
    /// Partitions, who extracts and who judges them.
    pub sources: Vec<SourceConfig>,
    /// Where items go.
    pub uploads: Vec<UploadConfig>,
    /// Samples and their stages.
    pub pipelines: Vec<PipelineConfig>,
    /// Whom to tell what goes wrong for good.
    pub notifiers: Vec<NotifierConfig>,
    /// Where that goes which leaves the store.
    pub prune: PruneConfig,
    /// What `redrive up` starts with.
    pub up: UpConfig,
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] ConfigFileError),
    /// The file has problems.
    #[error(transparent)]
    Invalid(#[from] ConfigReport),
}

/// Reads a file. `name` is what the file is called in messages.
pub fn load(path: &Path, name: &str) -> Result<Config, ConfigError> {
    let text = file::read_text(path, name)?;
    let absolute = std::path::absolute(path)
        .map_err(|source| ConfigFileError::Unreadable { name: name.to_owned(), source })?;
    let folder = absolute.parent().unwrap_or(Path::new("/"));
    Ok(parse(&text, name, folder)?)
}

/// Reads the text of a file. `name` is what the file is called in messages.
pub fn parse(text: &str, name: &str, folder: &Path) -> Result<Config, ConfigReport> {
    let (config, log) = read(text, folder);
    let (problems, _) = log.into_parts();
    match config {
        Some(config) if problems.is_empty() => Ok(config),
        _ => Err(ConfigReport::new(name.to_owned(), text.to_owned(), problems)),
    }
}

fn read(text: &str, folder: &Path) -> (Option<Config>, ReadLog) {
    let sound = syntax::sound_part(text);
    let log = ReadLog::new(sound.problems);
    let (table, _) = DeTable::parse_recoverable(&sound.text);
    let root = DeValue::Table(table.into_inner());
    let config = Value::root(&root, &log).table(|s| Config::read(s, folder));
    (config, log)
}

impl Config {
    /// The folder that a prune writes to.
    pub fn archive(&self) -> Option<PathBuf> {
        self.prune.export.as_ref().map(|folder| self.folder.join(folder))
    }

    /// The queue of that name, be it a notifier's.
    pub fn queue(&self, name: &str) -> Option<&QueueConfig> {
        let told = self.notifiers.iter().map(|notifier| &notifier.queue);
        self.queues.iter().chain(told).find(|queue| queue.name == name)
    }

    /// Advice for a name that no queue has.
    pub fn queue_suggestion(&self, name: &str) -> String {
        suggestion(name, self.queues.iter().map(|queue| queue.name.as_str()))
    }

    /// The upload of that name.
    pub fn upload(&self, name: &str) -> Option<&UploadConfig> {
        self.uploads.iter().find(|upload| upload.name == name)
    }

    /// Advice for a name that no upload has.
    pub fn upload_suggestion(&self, name: &str) -> String {
        suggestion(name, self.uploads.iter().map(|upload| upload.name.as_str()))
    }

    /// The source of that name.
    pub fn source(&self, name: &str) -> Option<&SourceConfig> {
        self.sources.iter().find(|source| source.name == name)
    }

    /// Advice for a name that no source has.
    pub fn source_suggestion(&self, name: &str) -> String {
        suggestion(name, self.sources.iter().map(|source| source.name.as_str()))
    }

    /// The pipeline of that name.
    pub fn pipeline(&self, name: &str) -> Option<&PipelineConfig> {
        self.pipelines.iter().find(|pipeline| pipeline.name == name)
    }

    /// Advice for a name that no pipeline has.
    pub fn pipeline_suggestion(&self, name: &str) -> String {
        suggestion(name, self.pipelines.iter().map(|pipeline| pipeline.name.as_str()))
    }

    /// Advice for a name that no notifier has.
    pub fn notifier_suggestion(&self, name: &str) -> String {
        suggestion(name, self.notifiers.iter().map(|notifier| notifier.name.as_str()))
    }

    fn read(s: &mut Section<'_>, folder: &Path) -> Option<Self> {
        let jitter_seed = s.get("jitter-seed", whole(0..=u64::MAX));
        let store = s.get("store", |value| value.table(StoreConfig::read));
        let raw = s.get("raw", |value| value.table(raw::read));
        let server = s.get("server", |value| value.table(ServerConfig::read));
        let policies = s.value("policy").map_or_else(Policies::default, Policies::read);
        let [mut queues, mut sources, mut uploads, mut pipelines]: [UniqueNames; 4] =
            Default::default();
        let mut notifiers = UniqueNames::default();
        let queues = s.each("queue", |s| QueueConfig::read(s, &policies, &mut queues));
        let sources = s.each("source", |s| SourceConfig::read(s, &policies, &mut sources));
        let uploads = s.each("upload", |s| UploadConfig::read(s, &mut uploads));
        let pipelines = s.each("pipeline", |s| PipelineConfig::read(s, &policies, &mut pipelines));
        let notifiers = s.each("notify", |s| NotifierConfig::read(s, &policies, &mut notifiers));
        let prune = s.get("prune", |value| value.table(PruneConfig::read));
        let up = s.get("up", |value| value.table(|s| UpConfig::read(s, &pipelines)));
        Some(Self {
            folder: folder.to_owned(),
            jitter_seed: JitterSeed(jitter_seed.unwrap_or_default()),
            store: store.unwrap_or_default(),
            raw: raw.unwrap_or_default(),
            server: server.unwrap_or_default(),
            queues,
            sources,
            uploads,
            pipelines,
            notifiers,
            prune: prune.unwrap_or_default(),
            up: up.unwrap_or_default(),
            policies,
        })
    }
}
