//! What to start, and how much of it.

use std::{path::PathBuf, time::Duration};

use crate::handlers::program::DEFAULT_GRACE;

/// A program that stays running and gets one call per line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSpec {
    /// The program and its arguments. No shell reads them. A relative program with a slash counts
    /// from `folder`; one without is looked for in `PATH`.
    pub argv: Vec<String>,
    /// The folder it runs in.
    pub folder: PathBuf,
    /// Names of variables it gets beside `PATH HOME LANG TZ TMPDIR`.
    pub env: Vec<String>,
    /// How long it has to end once its input is closed, and again after TERM, before KILL.
    /// [`DEFAULT_GRACE`] is 5 seconds.
    pub grace: Duration,
    /// How many of it run at most.
    pub processes: usize,
    /// How many calls each has at once. Above 1, replies must echo the `id` of the call.
    pub in_flight: usize,
}

impl StreamSpec {
    /// One program in a folder, one call at a time, with no further variables and the default grace.
    pub fn new(argv: Vec<String>, folder: impl Into<PathBuf>) -> Self {
        Self {
            argv,
            folder: folder.into(),
            env: Vec::new(),
            grace: DEFAULT_GRACE,
            processes: 1,
            in_flight: 1,
        }
    }
}
