//! The global flags, and how they select the output, the configuration and the store.

use std::{
    env,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use redrive::{
    InvalidStoreUrl, StoreUrl,
    config::{self, Config, StoreLocation},
    migrator, open_migrated_store, open_raw_sink, open_store,
    traces::Traces,
};
use redrive_engine::{Clock, RawSink, SystemClock, WriteTimes};
use redrive_store::{MigrationStep, Store};

use crate::{
    cli::Globals,
    exit::{CommandError, Exit},
    output::Output,
};

/// Holds the store URL if neither a flag nor the configuration does.
const STORE_VARIABLE: &str = "DATABASE_URL";

#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) output: Output,
    globals: Globals,
    traces: Arc<OnceLock<Traces>>,
    /// Counted by the engine of this process, shown by its server.
    pub(crate) write_times: Arc<WriteTimes>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChosenStore {
    pub(crate) url: StoreUrl,
    /// Where the URL comes from, in words: `--store`, `the file`, `$NAME` or `the default`.
    pub(crate) chosen_by: String,
}

/// What to do if a SQLite file does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfMissing {
    Create,
    /// Fail. A read-only command must not create a file.
    Refuse,
    /// Use an empty store in memory: a dry run must not create a file.
    Imagine,
}

impl ChosenStore {
    /// Opens the store. A SQLite file is migrated as needed; a PostgreSQL database never is.
    pub(crate) async fn open(
        &self,
        config: Option<&Config>,
        missing: IfMissing,
    ) -> Result<Arc<dyn Store>, CommandError> {
        let settings = config.map(|config| config.store.clone()).unwrap_or_default();
        let is_absent = matches!(&self.url, StoreUrl::SqliteFile(path) if !path.exists());
        let opened = match missing {
            IfMissing::Refuse if is_absent => {
                open_migrated_store(&self.url, settings.synchronous).await
            }
            IfMissing::Imagine if is_absent => {
                open_store(&StoreUrl::SqliteMemory, settings.synchronous, SystemClock.now()).await
            }
            IfMissing::Refuse | IfMissing::Create | IfMissing::Imagine => {
                open_store(&self.url, settings.synchronous, SystemClock.now()).await
            }
        };
        opened.map_err(|error| self.store_error(error))
    }

    /// Migrates to the latest schema. Returns the applied migrations.
    pub(crate) async fn migrate(&self) -> Result<Vec<MigrationStep>, CommandError> {
        let migrator = migrator(&self.url).map_err(|error| self.store_error(error))?;
        let steps = migrator.migrate_to(migrator.latest(), SystemClock.now()).await;
        steps.map_err(|error| self.store_error(error))
    }

    pub(crate) fn store_error(&self, error: redrive_store::Error) -> CommandError {
        CommandError::new(Exit::Error, format!("cannot use the store {}", self.url))
            .caused_by(error)
    }
}

impl Context {
    pub(crate) fn new(globals: Globals) -> Self {
        Self {
            output: Output::new(&globals),
            globals,
            traces: Arc::default(),
            write_times: Arc::default(),
        }
    }

    /// The traces of this process: they record nothing unless a command called [`Self::trace_to`].
    pub(crate) fn traces(&self) -> Traces {
        self.traces.get().cloned().unwrap_or_default()
    }

    #[cfg(feature = "otel")]
    pub(crate) fn trace_to(&self, traces: Traces) {
        // A process runs one command, which starts tracing once.
        _ = self.traces.set(traces);
    }

    /// The file that `--config` names.
    pub(crate) fn config_flag(&self) -> Option<&Path> {
        self.globals.config.as_deref()
    }

    /// The file that `--config` names, or the nearest `redrive.toml`, if there is one.
    pub(crate) fn config_path(&self) -> Result<Option<PathBuf>, CommandError> {
        match self.config_flag() {
            Some(path) => Ok(Some(path.to_owned())),
            None => Ok(config::find(&working_folder()?)),
        }
    }

    /// The name of a file in messages: relative if the file is in the working folder.
    pub(crate) fn display_name(&self, path: &Path) -> String {
        let here = working_folder().ok();
        let short = here.and_then(|here| path.strip_prefix(here).ok());
        short.unwrap_or(path).display().to_string()
    }

    pub(crate) fn config_name(&self) -> Result<String, CommandError> {
        let path = self.config_path()?;
        Ok(path.map(|path| self.display_name(&path)).unwrap_or_default())
    }

    /// The configuration, or `None` if there is no file.
    pub(crate) fn config(&self) -> Result<Option<Config>, CommandError> {
        let Some(path) = self.config_path()? else {
            return Ok(None);
        };
        Ok(Some(config::load(&path, &self.display_name(&path))?))
    }

    /// The configuration, or an error if there is no file.
    pub(crate) fn require_config(&self) -> Result<Config, CommandError> {
        self.config()?.ok_or_else(|| {
            let message =
                format!("there is no {} in this folder or in a folder above", config::FILE_NAME);
            CommandError::new(Exit::Error, message)
                .help("`redrive init` writes one; --config FILE selects another file")
        })
    }

    /// A copy of the context with the configuration file of `folder`.
    pub(crate) fn in_folder(&self, folder: &Path) -> Result<Self, CommandError> {
        if self.globals.config.is_some() {
            let message = "FOLDER and --config both select the configuration";
            return Err(CommandError::usage(message).help("pass only one of them"));
        }
        let file = folder.join(config::FILE_NAME);
        if !file.exists() {
            let message = format!("there is no {} in {}", config::FILE_NAME, folder.display());
            return Err(CommandError::new(Exit::Error, message)
                .help("`redrive init` writes one; or pass another folder, or --config FILE"));
        }
        let globals = Globals { config: Some(file), ..self.globals.clone() };
        Ok(Self { globals, ..self.clone() })
    }

    /// The store that `--store` names.
    pub(crate) fn store_flag(&self) -> Result<Option<ChosenStore>, CommandError> {
        let Some(text) = &self.globals.store else { return Ok(None) };
        let url = parse(text, "--store", Exit::Usage)?;
        chosen(url, &working_folder()?, "--store").map(Some)
    }

    /// The store to use: `--store`, the file, `DATABASE_URL`, or `sqlite:redrive.db`.
    pub(crate) fn store(&self, config: Option<&Config>) -> Result<ChosenStore, CommandError> {
        if let Some(store) = self.store_flag()? {
            return Ok(store);
        }
        if let Some(config) = config
            && let Some(location) = &config.store.url
        {
            return match location {
                StoreLocation::Url(url) => chosen(url.clone(), &config.folder, "the file"),
                StoreLocation::Env(name) => from_environment(name)?.ok_or_else(|| {
                    let message = format!(
                        "the configuration takes the store URL from ${name}, which is not set"
                    );
                    CommandError::new(Exit::Error, message)
                        .help(format!("set ${name}, or pass --store URL"))
                }),
            };
        }
        if let Some(store) = from_environment(STORE_VARIABLE)? {
            return Ok(store);
        }
        let folder = match config {
            Some(config) => config.folder.clone(),
            None => working_folder()?,
        };
        chosen(StoreUrl::default(), &folder, "the default")
    }

    /// The raw sink of the configuration, or the folder `raw` in the working folder.
    pub(crate) fn raw(&self, config: Option<&Config>) -> Result<RawSink, CommandError> {
        let url = match config {
            Some(config) => config.raw.clone().in_folder(&config.folder),
            None => config::RawUrl::default().in_folder(&working_folder()?),
        };
        open_raw_sink(&url).map_err(|error| {
            CommandError::new(Exit::Error, "cannot use the raw sink").caused_by(error)
        })
    }

    /// The store URL and its origin, in words. Also describes a store whose environment variable is
    /// not set, which cannot be opened.
    pub(crate) fn describe_store(&self, config: &Config) -> Result<(String, String), CommandError> {
        if let (None, Some(StoreLocation::Env(name))) = (&self.globals.store, &config.store.url)
            && from_environment(name)?.is_none()
        {
            return Ok((format!("${name}"), "the file, not set yet".to_owned()));
        }
        let store = self.store(Some(config))?;
        Ok((store.url.to_string(), store.chosen_by))
    }
}

/// Reads a store URL from an environment variable. An empty variable counts as not set.
fn from_environment(name: &str) -> Result<Option<ChosenStore>, CommandError> {
    let Some(value) = env::var_os(name).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let text = value.to_str().ok_or_else(|| {
        CommandError::new(Exit::Error, format!("the environment variable {name} is not UTF-8"))
    })?;
    let url = parse(text, &format!("${name}"), Exit::Error)?;
    chosen(url, &working_folder()?, &format!("${name}")).map(Some)
}

fn parse(text: &str, origin: &str, exit: Exit) -> Result<StoreUrl, CommandError> {
    text.parse().map_err(|error: InvalidStoreUrl| {
        CommandError::new(exit, format!("{origin}: {}", error.problem())).help(error.allowed())
    })
}

fn chosen(url: StoreUrl, folder: &Path, by: &str) -> Result<ChosenStore, CommandError> {
    Ok(ChosenStore { url: url.in_folder(folder), chosen_by: by.to_owned() })
}

fn working_folder() -> Result<PathBuf, CommandError> {
    env::current_dir().map_err(|error| {
        CommandError::new(Exit::Error, "cannot determine the working folder").caused_by(error)
    })
}
