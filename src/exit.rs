//! Exit codes and errors of commands (OPS-4).

use std::{error::Error, fmt, io, process::ExitCode};

use redrive::config;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Ok = 0,
    /// An error, findings, or a pipeline run that failed or was aborted.
    Error = 1,
    /// Invalid command line.
    Usage = 2,
    /// A part of the work was done.
    Partial = 3,
    /// A safety check refused; nothing was changed.
    Refused = 4,
    /// `consume cat`: the partition is terminal and never comes without an operator.
    Gone = 5,
    /// `consume cat`: the partition is missing or pending.
    Late = 6,
    /// `consume cat`: the partition was rejected and is retried later.
    Failed = 7,
    /// Stopped by Ctrl-C (SIGINT).
    Interrupted = 130,
    /// Stopped by SIGTERM.
    Terminated = 143,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command failed: a message, its causes, and a hint.
#[derive(Debug)]
pub(crate) struct CommandError {
    pub(crate) exit: Exit,
    pub(crate) message: String,
    pub(crate) cause: Option<Box<dyn Error + Send + Sync>>,
    /// What to do next.
    pub(crate) help: Option<String>,
    /// The problems of a configuration file, printed before the message.
    pub(crate) report: Option<Box<config::ConfigReport>>,
    /// Print nothing, because the reader closed the output.
    pub(crate) silent: bool,
}

impl CommandError {
    pub(crate) fn new(exit: Exit, message: impl fmt::Display) -> Self {
        Self {
            exit,
            message: message.to_string(),
            cause: None,
            help: None,
            report: None,
            silent: false,
        }
    }

    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub(crate) fn caused_by(mut self, cause: impl Error + Send + Sync + 'static) -> Self {
        self.cause = Some(Box::new(cause));
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Output that could not be written. A closed pipe, as with `| head`, is not an error.
    pub(crate) fn output(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            let mut done = Self::new(Exit::Ok, "");
            done.silent = true;
            return done;
        }
        Self::new(Exit::Error, "cannot write the output").caused_by(error)
    }
}

impl From<config::ConfigError> for CommandError {
    fn from(error: config::ConfigError) -> Self {
        let mut command_error = Self::new(Exit::Error, &error);
        match error {
            config::ConfigError::Invalid(report) => command_error.report = Some(Box::new(report)),
            other => command_error.cause = other.source().map(|cause| cause.to_string().into()),
        }
        command_error
    }
}
