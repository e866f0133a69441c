//! A user's program, as a process: what it takes to start one, hear it, and be rid of it.
//!
//! Users' programs do what programs do: print without end, ignore TERM, leave children behind that
//! hold their pipes open, never read their input. None of that may hang a worker, cost it memory or
//! lose the outcome. So each program leads a process group of its own, everything it prints is read
//! with a bound, every wait has an end, and the group is gone when it is over.
//!
//! [`environment`] says what a program may see, [`lookup`] where it is, [`group`] is it and what it
//! started from start to end, [`ending`] how it is ended, [`output`] keeps the little that matters of
//! what it prints, and [`report`] says what happened in words.

mod invalid;

pub(crate) mod environment;
mod lookup;

mod group;
mod termination;

pub(crate) mod output;
pub(crate) mod report;

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use redrive_core::Failure;
use tokio::process::Command;

pub use self::invalid::InvalidProgram;
pub(crate) use self::{
    group::{Pipes, ProcessGroup},
    termination::{DRAIN_LIMIT, KILL_LIMIT, terminate},
};

/// How long a program has to end after TERM, unless it is set otherwise.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(5);

/// A program that can be started any number of times.
#[derive(Debug)]
pub(crate) struct ProgramLauncher {
    name: String,
    path: PathBuf,
    arguments: Vec<String>,
    folder: PathBuf,
    inherited: Vec<(String, OsString)>,
}

impl ProgramLauncher {
    /// Checks a program, its arguments, and the names of variables it gets. The environment is read
    /// here, once. Which folder a relative program counts from differs between systems, so what has
    /// a slash becomes absolute.
    pub(crate) fn new(
        argv: Vec<String>,
        folder: &Path,
        env: &[String],
    ) -> Result<Self, InvalidProgram> {
        InvalidProgram::check(&argv, env)?;
        let folder = std::path::absolute(folder)
            .map_err(|source| InvalidProgram::Folder { folder: folder.to_owned(), source })?;
        let mut argv = argv.into_iter();
        let name = argv.next().unwrap_or_default();
        // By components: `./work.sh` in a folder is shown without the dot.
        let path = match name.contains('/') {
            true => folder.join(&name).components().collect(),
            false => PathBuf::from(&name),
        };
        let inherited = environment::inherited(env);
        Ok(Self { name, path, arguments: argv.collect(), folder, inherited })
    }

    /// What it is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A command that starts it, with pipes for all it reads and prints.
    pub(crate) fn command(&self) -> Command {
        let search = self.inherited.iter().find(|(name, _)| name == "PATH");
        let search = search.map(|(_, value)| value.as_os_str());
        let program = lookup::locate(&self.path, search, &self.folder);
        let mut command = Command::new(program.as_ref());
        command
            .arg0(&self.name)
            .args(&self.arguments)
            .current_dir(&self.folder)
            .env_clear()
            .envs(self.inherited.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// The failure of a start that the system refused.
    pub(crate) fn cannot_start(&self, error: &io::Error) -> Failure {
        report::cannot_start(&self.path, &self.folder, error)
    }
}
