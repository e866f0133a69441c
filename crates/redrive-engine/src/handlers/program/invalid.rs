//! What can never be started, found before anything is.

use std::{io, path::PathBuf};

/// A program that can never be started as specified.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidProgram {
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
    /// None of it may run, or none may have a call.
    #[error("{0} must be at least 1")]
    Zero(&'static str),
}

impl InvalidProgram {
    /// Checks a program with its arguments, and names of variables.
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
