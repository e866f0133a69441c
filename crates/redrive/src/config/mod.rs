//! The configuration file, `redrive.toml`.
//!
//! [`find`] searches the working folder and the folders above it. Relative paths in the file are
//! resolved from the folder of the file. Durations are written like `5m`, keys in kebab-case, and
//! secrets only as names of environment variables. One problem makes the whole file invalid, so that
//! no worker runs on a part of the configuration. A [`ConfigReport`] lists every problem with its
//! line.
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
mod policy_rules;

mod handler;
mod http;
mod limits;

mod gate;
mod queue;

mod schedule;
mod source;

mod upload;

mod pipeline;

mod notify;

mod plans;
mod prune;
mod raw;
mod server;
mod store;
mod up;

mod schema;

use std::path::{Path, PathBuf};

use redrive_core::JitterSeed;
use redrive_engine::verdict_code;
use toml::de::{DeTable, DeValue};

pub use file::{ConfigFileError, FILE_NAME, find};
pub use gate::GateConfig;
pub use handler::{HandlerConfig, ProgramConfig, StreamConfig};
pub use http::HttpConfig;
pub use limits::LimitsConfig;
pub use notify::{NotifierConfig, NotifyEvent};
pub use pipeline::{PipelineConfig, SampleSourceConfig, StageConfig};
pub use plans::PlansConfig;
pub use policy::{Policies, PolicyChoice};
pub use problem::{ConfigProblem, ConfigReport};
pub use prune::PruneConfig;
pub use queue::QueueConfig;
pub use raw::{InvalidRawUrl, RawUrl};
pub use schedule::{ScheduleConfig, ScheduleInterval};
pub use schema::SCHEMA;
pub use server::{ServerConfig, TokenConfig, TokenDigest};
pub use source::{SourceConfig, ValidationConfig};
pub use store::{StoreConfig, StoreLocation, SynchronousMode};
pub use up::UpConfig;
pub use upload::UploadConfig;

use log::{ReadLog, UniqueNames};
use reader::{Section, Value};
use value::whole;

pub use crate::nearest::suggestion;

/// The content of a valid configuration file.
#[derive(Debug, Clone)]
pub struct Config {
    /// The folder of the file; relative paths are resolved from it.
    pub folder: PathBuf,
    /// Shifts the jitter of all waits. Every host that shares a store needs the same seed.
    pub jitter_seed: JitterSeed,
    pub store: StoreConfig,
    pub raw: RawUrl,
    pub server: ServerConfig,
    /// The presets and the `[policy.NAME]` sections.
    pub policies: Policies,
    pub gates: Vec<GateConfig>,
    pub queues: Vec<QueueConfig>,
    pub sources: Vec<SourceConfig>,
    pub uploads: Vec<UploadConfig>,
    pub pipelines: Vec<PipelineConfig>,
    pub notifiers: Vec<NotifierConfig>,
    pub plans: PlansConfig,
    pub prune: PruneConfig,
    pub up: UpConfig,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    #[error(transparent)]
    File(#[from] ConfigFileError),
    #[error(transparent)]
    Invalid(#[from] ConfigReport),
}

/// Reads and validates a configuration file. Messages refer to the file as `name`.
pub fn load(path: &Path, name: &str) -> Result<Config, ConfigError> {
    let text = file::read_text(path, name)?;
    let absolute = std::path::absolute(path)
        .map_err(|source| ConfigFileError::Unreadable { name: name.to_owned(), source })?;
    let folder = absolute.parent().unwrap_or(Path::new("/"));
    Ok(parse(&text, name, folder)?)
}

/// Validates the text of a configuration file. Messages refer to the file as `name`; relative paths
/// are resolved from `folder`.
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
    /// The folder that `redrive prune` exports to, as an absolute path.
    pub fn archive(&self) -> Option<PathBuf> {
        self.prune.export.as_ref().map(|folder| self.folder.join(folder))
    }

    /// Finds a queue by name, among the declared queues and those of the notifiers.
    pub fn queue(&self, name: &str) -> Option<&QueueConfig> {
        let notifier_queues = self.notifiers.iter().map(|notifier| &notifier.queue);
        self.queues.iter().chain(notifier_queues).find(|queue| queue.name == name)
    }

    /// Suggests a queue for an unknown name.
    pub fn queue_suggestion(&self, name: &str) -> String {
        suggestion(name, self.queues.iter().map(|queue| queue.name.as_str()))
    }

    pub fn gate_suggestion(&self, name: &str) -> String {
        suggestion(name, self.gates.iter().map(|gate| gate.name.as_str()))
    }

    pub fn upload(&self, name: &str) -> Option<&UploadConfig> {
        self.uploads.iter().find(|upload| upload.name == name)
    }

    pub fn upload_suggestion(&self, name: &str) -> String {
        suggestion(name, self.uploads.iter().map(|upload| upload.name.as_str()))
    }

    pub fn source(&self, name: &str) -> Option<&SourceConfig> {
        self.sources.iter().find(|source| source.name == name)
    }

    pub fn source_suggestion(&self, name: &str) -> String {
        suggestion(name, self.sources.iter().map(|source| source.name.as_str()))
    }

    pub fn pipeline(&self, name: &str) -> Option<&PipelineConfig> {
        self.pipelines.iter().find(|pipeline| pipeline.name == name)
    }

    pub fn pipeline_suggestion(&self, name: &str) -> String {
        suggestion(name, self.pipelines.iter().map(|pipeline| pipeline.name.as_str()))
    }

    pub fn notifier_suggestion(&self, name: &str) -> String {
        suggestion(name, self.notifiers.iter().map(|notifier| notifier.name.as_str()))
    }

    fn read(s: &mut Section<'_>, folder: &Path) -> Option<Self> {
        let jitter_seed = s.get("jitter-seed", whole(0..=u64::MAX));
        let store = s.get("store", |value| value.table(StoreConfig::read));
        let raw = s.get("raw", |value| value.table(raw::read));
        let server = s.get("server", |value| value.table(ServerConfig::read));
        let policy = s.value("policy");
        let policies = policy.clone().map_or_else(Policies::default, Policies::read);
        let [mut queues, mut sources, mut uploads, mut pipelines]: [UniqueNames; 4] =
            Default::default();
        let mut notifiers = UniqueNames::default();
        let mut gates = UniqueNames::default();
        let gates = s.each("gate", |s| GateConfig::read(s, &mut gates));
        let queues = s.each("queue", |s| QueueConfig::read(s, &policies, &gates, &mut queues));
        let sources = s.each("source", |s| SourceConfig::read(s, &policies, &gates, &mut sources));
        let uploads = s.each("upload", |s| UploadConfig::read(s, &gates, &mut uploads));
        let pipelines =
            s.each("pipeline", |s| PipelineConfig::read(s, &policies, &gates, &mut pipelines));
        let notifiers = s.each("notify", |s| NotifierConfig::read(s, &policies, &mut notifiers));
        let plans = s.get("plans", |value| value.table(PlansConfig::read));
        let prune = s.get("prune", |value| value.table(PruneConfig::read));
        let up = s.get("up", |value| value.table(|s| UpConfig::read(s, &pipelines)));
        let stages = || pipelines.iter().flat_map(|pipeline| &pipeline.stages);
        if let Some(value) = policy.filter(|_| s.problem_count() == 0) {
            let choices = queues.iter().map(|queue| &queue.policy);
            let choices = choices.chain(sources.iter().map(|source| &source.policy));
            let choices = choices.chain(stages().map(|stage| &stage.policy));
            let choices = choices.chain(notifiers.iter().map(|notifier| &notifier.queue.policy));
            let used: Vec<&str> = choices.filter_map(|choice| choice.name.as_deref()).collect();
            let handlers = queues.iter().map(|queue| &queue.handler);
            let handlers = handlers.chain(stages().map(|stage| &stage.handler));
            let handlers = handlers.chain(sources.iter().flat_map(SourceConfig::handlers));
            let stated = handlers.flat_map(|it| it.codes()).map(String::as_str);
            let codes = stated.chain(verdict_code::ALL).map(str::to_owned);
            let codes: Vec<String> = codes.collect();
            policies.check_unused(value, &used, &codes);
        }
        Some(Self {
            folder: folder.to_owned(),
            jitter_seed: JitterSeed(jitter_seed.unwrap_or_default()),
            store: store.unwrap_or_default(),
            raw: raw.unwrap_or_default(),
            server: server.unwrap_or_default(),
            gates,
            queues,
            sources,
            uploads,
            pipelines,
            notifiers,
            plans: plans.unwrap_or_default(),
            prune: prune.unwrap_or_default(),
            up: up.unwrap_or_default(),
            policies,
        })
    }
}
