//! Failures and messages about programs.

use std::{io, os::unix::process::ExitStatusExt, path::Path, process::ExitStatus, time::Duration};

use redrive_core::{Cause, Code, Failure, HumanDuration, Message, STDERR_MARK, headline, named};
use rustix::io::Errno;

use crate::{
    Outcome,
    handlers::reply::{BadReply, Reply, ReportedError},
};

/// A message with the end of stderr, both kept in the ledger.
pub(crate) fn explain(what: &str, stderr: &str) -> String {
    match (what, stderr) {
        (what, "") => what.to_owned(),
        ("", stderr) => stderr.to_owned(),
        (what, stderr) => format!("{what}{STDERR_MARK}{stderr}"),
    }
}

/// The message about a program that died. An error that its stderr reports comes first, because lists show
/// the beginning of a message.
pub(crate) fn explain_death(what: &str, stderr: &str) -> String {
    match (headline(stderr), what) {
        (None, what) => explain(what, stderr),
        (Some(error), "") => explain(&error, stderr),
        (Some(error), what) => explain(&format!("{error}; {what}"), stderr),
    }
}

/// Stderr as text that can be stored and shown.
pub(crate) fn printable(stderr: &[u8]) -> String {
    Message::clean_bytes(stderr.trim_ascii()).as_str().to_owned()
}

/// The failure of an exit status other than success.
pub(crate) fn exit_failure(status: ExitStatus, message: &str) -> Failure {
    match status.code().map(u8::try_from) {
        Some(Ok(code)) => Failure::exit(code, message),
        _ => Failure::signal(status.signal().unwrap_or_default(), message),
    }
}

pub(crate) fn timeout_failure(time_limit: Duration, stderr: &str) -> Failure {
    let limit = HumanDuration::from(time_limit);
    let what = format!("the program took longer than its time limit of {limit}");
    Failure::timeout(&explain(&what, stderr))
}

pub(crate) fn bad_reply_failure(bad: &BadReply, stderr: &str) -> Failure {
    Failure::named(named::BAD_REPLY, Cause::Handler, &explain(&bad.to_string(), stderr))
}

pub(crate) fn outcome(reply: Reply, stderr: &str) -> Outcome {
    match reply {
        Reply::Ok { value, verdict } => Outcome::Answered { value: Some(value), verdict },
        Reply::Skip(why) => Outcome::Skipped(why),
        Reply::Error(error) => Outcome::Failed(reported(&error, stderr)),
    }
}

fn reported(error: &ReportedError, stderr: &str) -> Failure {
    let unnamed = |message: &str| Failure::reported(None, Code::name(named::ERROR), message);
    let message = explain(error.message.as_deref().unwrap_or_default(), stderr);
    let default = "the program reported an error without a message";
    error.failure(unnamed, if message.is_empty() { default } else { &message })
}

/// The failure of a program that could not be started. The system reports the same error for a missing
/// program, folder or interpreter; the message says which one is missing.
pub(super) fn start_failure(program: &Path, folder: &Path, error: &io::Error) -> Failure {
    let why = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory if !folder.is_dir() => {
            format!("the folder {} does not exist", folder.display())
        }
        io::ErrorKind::NotFound if program.is_file() => {
            "the interpreter in the first line of the program does not exist".to_owned()
        }
        io::ErrorKind::NotFound if program.is_absolute() => "the file does not exist".to_owned(),
        io::ErrorKind::NotFound => "the program is not in PATH".to_owned(),
        io::ErrorKind::PermissionDenied => {
            format!("the file is not executable for this user: {error}")
        }
        io::ErrorKind::ArgumentListTooLong => {
            format!("the arguments and the environment are too long: {error}")
        }
        _ if error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error()) => {
            "the file is neither a program nor a script that begins with a line such as #!/bin/sh"
                .to_owned()
        }
        _ => error.to_string(),
    };
    Failure::spawn(&format!("cannot start {}: {why}", program.display()))
}
