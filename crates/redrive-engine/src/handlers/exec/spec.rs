//! Which program to start, and how.

use std::{path::PathBuf, time::Duration};

use crate::handlers::program::DEFAULT_GRACE;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecSpec {
    /// The program and its arguments, without a shell. A relative path with a slash is relative to
    /// `folder`; a name without a slash is searched in `PATH`.
    pub argv: Vec<String>,
    /// The working folder.
    pub folder: PathBuf,
    /// Names of variables to inherit in addition to `PATH HOME LANG TZ TMPDIR`; `REDRIVE_*` are always set.
    pub env: Vec<String>,
    /// The time between TERM and KILL. [`DEFAULT_GRACE`] is 5 seconds.
    pub grace: Duration,
}

impl ExecSpec {
    /// A program in a folder, with no additional variables and the default grace.
    pub fn new(argv: Vec<String>, folder: impl Into<PathBuf>) -> Self {
        Self { argv, folder: folder.into(), env: Vec::new(), grace: DEFAULT_GRACE }
    }
}
