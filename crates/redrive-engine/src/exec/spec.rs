//! What to start, checked before anything is started.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

/// How long a program has to end after TERM, unless it is set otherwise.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(5);

/// A program to start for each call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecSpec {
    /// The program and its arguments. No shell reads them. A relative program with a slash counts
    /// from `folder`; one without is looked for in `PATH`.
    pub argv: Vec<String>,
    /// The folder it runs in.
    pub folder: PathBuf,
    /// Names of variables it gets beside `PATH HOME LANG TZ TMPDIR` and `REDRIVE_*`.
    pub env: Vec<String>,
    /// How long it has to end after TERM, before KILL. [`DEFAULT_GRACE`] is 5 seconds.
    pub grace: Duration,
}

/// A program that can never be started as specified.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidExec {
    /// The list is empty, or its first element is.
    #[error("a command needs a program, such as [\"./work.sh\"]")]
    NoProgram,
    /// A NUL cannot be passed to a program.
    #[error("the argument {0:?} holds a NUL")]
    Nul(String),
    /// No variable can have that name.
    #[error("{0:?} is not the name of an environment variable")]
    VariableName(String),
    /// The folder is relative, and there is nothing it could count from.
    #[error("cannot tell where the folder {} is", .folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl ExecSpec {
    /// A program in a folder, with no further variables and the default grace.
    pub fn new(argv: Vec<String>, folder: impl Into<PathBuf>) -> Self {
        Self { argv, folder: folder.into(), env: Vec::new(), grace: DEFAULT_GRACE }
    }

    /// The program and its folder, checked. Which folder a relative program counts from differs
    /// between systems, so what has a slash becomes absolute here.
    pub(super) fn resolve(&self) -> Result<(PathBuf, PathBuf), InvalidExec> {
        let program = self.argv.first().filter(|program| !program.is_empty());
        let program = program.ok_or(InvalidExec::NoProgram)?;
        if let Some(argument) = self.argv.iter().find(|argument| argument.contains('\0')) {
            return Err(InvalidExec::Nul(argument.clone()));
        }
        let unfit = |name: &&String| name.is_empty() || name.contains(['=', '\0']);
        if let Some(name) = self.env.iter().find(unfit) {
            return Err(InvalidExec::VariableName(name.clone()));
        }
        let folder = std::path::absolute(&self.folder)
            .map_err(|source| InvalidExec::Folder { folder: self.folder.clone(), source })?;
        let program =
            if program.contains('/') { folder.join(program) } else { Path::new(program).into() };
        Ok((program, folder))
    }
}
