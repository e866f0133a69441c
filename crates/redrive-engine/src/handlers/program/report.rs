//! What happened to a program, in words and as a failure.

use std::{io, os::unix::process::ExitStatusExt, path::Path, process::ExitStatus, time::Duration};

use redrive_core::{Cause, Code, Failure, HumanDuration, Message, named};
use rustix::io::Errno;

use crate::{
    Outcome,
    handlers::reply::{BadReply, Reply, ReportedError},
};

/// What happened, and then the end of stderr, which stays with the attempt.
pub(crate) fn explain(what: &str, stderr: &str) -> String {
    match (what, stderr) {
        (what, "") => what.to_owned(),
        ("", stderr) => stderr.to_owned(),
        (what, stderr) => format!("{what}\nstderr: {stderr}"),
    }
}

/// What was kept of stderr, fit to be stored and shown.
pub(crate) fn printable(stderr: &[u8]) -> String {
    Message::clean_bytes(stderr.trim_ascii()).as_str().to_owned()
}

/// The failure that a status other than success amounts to.
pub(crate) fn exit_failure(status: ExitStatus, message: &str) -> Failure {
    match status.code().map(u8::try_from) {
        Some(Ok(code)) => Failure::exit(code, message),
        _ => Failure::signal(status.signal().unwrap_or_default(), message),
    }
}

/// The failure of a program that did not answer in time.
pub(crate) fn timeout_failure(time_limit: Duration, stderr: &str) -> Failure {
    let limit = HumanDuration::from(time_limit);
    let what = format!("the program took longer than its time limit of {limit}");
    Failure::timeout(&explain(&what, stderr))
}

/// The failure of a reply that fits nothing.
pub(crate) fn bad_reply_failure(bad: &BadReply, stderr: &str) -> Failure {
    Failure::named(named::BAD_REPLY, Cause::Handler, &explain(&bad.to_string(), stderr))
}

/// What a reply amounts to.
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
    let silent = "the program reported an error without a message";
    error.failure(unnamed, if message.is_empty() { silent } else { &message })
}

/// The failure of a program that could not be started. The system says the same for a missing
/// program, folder and interpreter; people need to know which.
pub(super) fn cannot_start(program: &Path, folder: &Path, error: &io::Error) -> Failure {
    let why = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory if !folder.is_dir() => {
            format!("the folder {} is not there", folder.display())
        }
        io::ErrorKind::NotFound if program.is_file() => {
            "the program is there, but not the interpreter that its first line names".to_owned()
        }
        io::ErrorKind::NotFound if program.is_absolute() => "it is not there".to_owned(),
        io::ErrorKind::NotFound => "it is not in PATH".to_owned(),
        io::ErrorKind::PermissionDenied => format!("it may not be executed: {error}"),
        io::ErrorKind::ArgumentListTooLong => {
            format!("its arguments and environment are too long: {error}")
        }
        _ if error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error()) => {
            "it is neither a program nor a script that begins with a line such as #!/bin/sh"
                .to_owned()
        }
        _ => error.to_string(),
    };
    Failure::spawn(&format!("cannot start {}: {why}", program.display()))
}
