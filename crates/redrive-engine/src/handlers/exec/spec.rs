//! What to start.

use std::{path::PathBuf, time::Duration};

use crate::handlers::program::DEFAULT_GRACE;

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

impl ExecSpec {
    /// A program in a folder, with no further variables and the default grace.
    pub fn new(argv: Vec<String>, folder: impl Into<PathBuf>) -> Self {
        Self { argv, folder: folder.into(), env: Vec::new(), grace: DEFAULT_GRACE }
    }
}
