//! How the program ends (OPS-4).

use std::{error::Error, fmt, io, process::ExitCode};

use redrive::config;

/// The exit codes, and what each tells a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// All is well.
    Ok = 0,
    /// An error, findings, or a pipeline that failed or aborted.
    Error = 1,
    /// The command line is wrong.
    Usage = 2,
    /// Some was done and some was not.
    Partial = 3,
    /// Nothing was done, because a rail refused.
    Refused = 4,
    /// Stopped by Ctrl-C.
    Interrupted = 130,
    /// Stopped by SIGTERM.
    Terminated = 143,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command did not do what it was asked: one message, its causes, and advice.
#[derive(Debug)]
pub(crate) struct CommandError {
    /// The exit code.
    pub(crate) exit: Exit,
    /// What went wrong.
    pub(crate) message: String,
    /// What that came from.
    pub(crate) cause: Option<Box<dyn Error + Send + Sync>>,
    /// What to do about it.
    pub(crate) help: Option<String>,
    /// Text that goes before the message as it is, such as a report on a file.
    pub(crate) report: Option<Box<config::ConfigReport>>,
    /// Nobody reads the output any more, so there is nobody to tell.
    pub(crate) silent: bool,
}

impl CommandError {
    /// A failure with a message.
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

    /// A command line that is wrong.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// With what it came from.
    pub(crate) fn caused_by(mut self, cause: impl Error + Send + Sync + 'static) -> Self {
        self.cause = Some(Box::new(cause));
        self
    }

    /// With advice.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Output that could not be written. `| head` closes the pipe when it has seen enough; that is
    /// no failure.
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
        let mut failure = Self::new(Exit::Error, &error);
        match error {
            config::ConfigError::Invalid(report) => failure.report = Some(Box::new(report)),
            other => failure.cause = other.source().map(|cause| cause.to_string().into()),
        }
        failure
    }
}
