//! Starts, limits and terminates the programs of users.
//!
//! Programs print without end, ignore TERM, leave children behind that hold their pipes open, and never
//! read their input. None of that may hang a worker, exhaust its memory or lose the outcome. So each program
//! leads its own process group, output is read into bounded memory, every wait has a limit, and the group is
//! killed when the program is done.
//!
//! [`environment`] defines the variables of a program, [`lookup`] finds it in `PATH`, [`process_group`] is the process
//! group, [`termination`] ends it, [`output`] keeps the relevant part of the output, and [`report`] makes
//! failures and messages, with what [`headline`](redrive_core::headline) finds in stderr.

mod invalid;

pub(crate) mod environment;
mod lookup;

mod process_group;
mod termination;

pub(crate) mod output;
pub(crate) mod report;

use std::{
    borrow::Cow,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use redrive_core::{Failure, STDERR_MARK};
use tokio::process::Command;

use crate::{Outcome, handlers::secrets::Secrets};

pub use self::{invalid::InvalidProgram, lookup::program_problem};
pub(crate) use self::{
    process_group::{Pipes, ProcessGroup},
    termination::{DRAIN_LIMIT, KILL_LIMIT, terminate},
};

/// How long a program has to exit after TERM, by default.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(5);

/// Starts one program, any number of times.
#[derive(Debug)]
pub(crate) struct ProgramLauncher {
    name: String,
    path: PathBuf,
    arguments: Vec<String>,
    folder: PathBuf,
    env: Vec<String>,
    inherited: Vec<(String, OsString)>,
    /// Among the named variables.
    pub(crate) secrets: Arc<Secrets>,
}

impl ProgramLauncher {
    /// Checks the program, its arguments, and the names of its variables. The environment is read here,
    /// once. Systems resolve a relative program differently, so a path with a slash is made absolute.
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
        // Collecting the components removes the dot of `./work.sh`.
        let path = match name.contains('/') {
            true => folder.join(&name).components().collect(),
            false => PathBuf::from(&name),
        };
        let (arguments, inherited) = (argv.collect(), environment::inherited(env));
        let named = inherited.iter().filter(|(name, _)| env.contains(name));
        let named = named.filter_map(|(name, value)| Some((name.as_str(), value.to_str()?)));
        let secrets = Arc::new(Secrets::among(named));
        Ok(Self { name, path, arguments, folder, env: env.to_vec(), inherited, secrets })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A command with pipes for stdin, stdout and stderr.
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

    /// Redacts the message of a failure, and adds a hint if the program lacked an environment variable.
    pub(crate) fn with_hint(&self, outcome: Outcome) -> Outcome {
        let Outcome::Failed(mut failure) = outcome else { return outcome };
        if let Cow::Owned(message) = self.secrets.redact(failure.message().as_str().into()) {
            failure = failure.retold(None, &message);
        }
        let message = failure.message().as_str();
        let Some(hint) = environment::hint(&self.env, message) else {
            return Outcome::Failed(failure);
        };
        let (says, stderr) = message.split_once(STDERR_MARK).unwrap_or((message, ""));
        let message = report::explain(&format!("{says}\n{hint}"), stderr);
        Outcome::Failed(failure.retold(None, &message))
    }

    /// The failure for an error of the start.
    pub(crate) fn start_failure(&self, error: &io::Error) -> Failure {
        report::start_failure(&self.path, &self.folder, error)
    }
}
