//! Events of a retried operation, and its final error.

use std::{error::Error, fmt, time::Duration};

use jiff::Timestamp;
use redrive_core::{Failure, GiveUpReason};

/// An attempt failed, and another will follow.
#[derive(Debug)]
#[non_exhaustive]
pub struct RetryEvent<'e, E> {
    /// The attempt that failed, from 1.
    pub attempt: u32,
    pub error: &'e E,
    /// The error, classified.
    pub failure: &'e Failure,
    /// The wait before the next attempt.
    pub delay: Duration,
    /// When the next attempt starts.
    pub at: Timestamp,
    /// Whether the attempt counts against `max_attempts`; one that a server asked to repeat later does not.
    pub counted: bool,
}

/// Why there was no further attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ended {
    /// The policy gave up.
    GaveUp(GiveUpReason),
    /// The caller stopped it.
    Stopped,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GaveUp(reason) => reason.fmt(f),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

/// The last error, with the reason for giving up.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GaveUp<E> {
    /// The error of the last attempt.
    pub error: E,
    /// The error, classified.
    pub failure: Failure,
    /// How many attempts there were.
    pub attempts: u32,
    pub ended: Ended,
}

impl<E> fmt::Display for GaveUp<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.attempts == 1 { "attempt" } else { "attempts" };
        write!(f, "no success in {} {word}: {}", self.attempts, self.ended)
    }
}

impl<E: Error + 'static> Error for GaveUp<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}
