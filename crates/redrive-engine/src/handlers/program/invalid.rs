//! Programs that can never be started, detected before the first start.

use std::{io, path::PathBuf};

/// Why a program can never be started as specified.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidProgram {
    /// The list is empty, or its first element is.
    #[error("a command needs a program, such as [\"./work.sh\"]")]
    NoProgram,
    #[error("the argument {0:?} contains a NUL byte; programs cannot receive one")]
    Nul(String),
    #[error("{0:?} is not the name of an environment variable")]
    VariableName(String),
    /// The folder is relative, and the current folder is unknown.
    #[error("cannot resolve the folder {}", .folder.display())]
    Folder {
        folder: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A count of processes or calls.
    #[error("{0} must be at least 1")]
    Zero(&'static str),
}

impl InvalidProgram {
    pub(super) fn check(argv: &[String], env: &[String]) -> Result<(), Self> {
        if argv.first().is_none_or(String::is_empty) {
            return Err(Self::NoProgram);
        }
        if let Some(argument) = argv.iter().find(|argument| argument.contains('\0')) {
            return Err(Self::Nul(argument.clone()));
        }
        let unfit = |name: &&String| name.is_empty() || name.contains(['=', '\0']);
        match env.iter().find(unfit) {
            Some(name) => Err(Self::VariableName(name.clone())),
            None => Ok(()),
        }
    }
}
