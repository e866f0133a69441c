//! Which program to start, how often, and with how many calls.

use std::{path::PathBuf, time::Duration};

use crate::handlers::program::DEFAULT_GRACE;

/// A program that stays running and gets one call per line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSpec {
    /// The program and its arguments, without a shell. A relative path with a slash is relative to
    /// `folder`; a name without a slash is searched in `PATH`.
    pub argv: Vec<String>,
    /// The working folder.
    pub folder: PathBuf,
    /// Names of variables to inherit in addition to `PATH HOME LANG TZ TMPDIR`.
    pub env: Vec<String>,
    /// The time between the end of input and TERM, and between TERM and KILL.
    /// [`DEFAULT_GRACE`] is 5 seconds.
    pub grace: Duration,
    /// The most processes at once.
    pub processes: usize,
    /// The most calls of each process at once. Above 1, replies must repeat the `id` of the call.
    pub in_flight: usize,
}

impl StreamSpec {
    /// One process, one call at a time, with no additional variables and the default grace.
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
