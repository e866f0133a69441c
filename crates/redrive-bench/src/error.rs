//! Errors of the benchmarks, and the exit codes they lead to.

use std::{
    error::Error,
    fmt,
    io::{self, Write},
};

use redrive_core::Message;

/// The exit codes of `redrive`, as far as a benchmark needs them.
const FAILED: u8 = 1;
const WRONG_USAGE: u8 = 2;
const REFUSED: u8 = 4;

/// Why there is no result: a message, its cause, and what to do next.
#[derive(Debug)]
pub(crate) struct BenchError {
    pub(crate) exit_code: u8,
    message: String,
    cause: Option<Box<dyn Error + Send + Sync>>,
    help: Option<String>,
}

impl BenchError {
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self::with_exit_code(FAILED, message)
    }

    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::with_exit_code(WRONG_USAGE, message)
    }

    /// Nothing was changed, because the benchmark must not run there.
    pub(crate) fn refused(message: impl fmt::Display) -> Self {
        Self::with_exit_code(REFUSED, message)
    }

    pub(crate) fn with_exit_code(exit_code: u8, message: impl fmt::Display) -> Self {
        Self { exit_code, message: message.to_string(), cause: None, help: None }
    }

    pub(crate) fn because(mut self, cause: impl Error + Send + Sync + 'static) -> Self {
        self.cause = Some(Box::new(cause));
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Prints the error to standard error. Messages may quote foreign text, so they are cleaned first.
    pub(crate) fn print(&self) -> io::Result<()> {
        let mut out = io::stderr().lock();
        writeln!(out, "error: {}", Message::clean(&self.message))?;
        let mut cause = self.cause.as_deref().map(|cause| cause as &dyn Error);
        while let Some(error) = cause {
            writeln!(out, "  because: {}", Message::clean(&error.to_string()))?;
            cause = error.source();
        }
        if let Some(help) = &self.help {
            writeln!(out, "  help: {}", Message::clean(help))?;
        }
        Ok(())
    }
}

/// Turns the error of a library into one that ends the benchmark.
pub(crate) fn failed(error: impl Error + Send + Sync + 'static) -> BenchError {
    BenchError::new("the benchmark failed").because(error)
}
