//! From how a program ended and what it printed to an outcome.

use std::{io, os::unix::process::ExitStatusExt, path::Path, process::ExitStatus, time::Duration};

use redrive_core::{Cause, Code, Failure, HumanDuration, Message, named};
use rustix::io::Errno;

use super::{output::Printed, supervision::Ending};
use crate::{Outcome, reply::Reply};

/// The code of an error that a program reports without one.
const UNNAMED_ERROR: &str = "error";

/// The code of a program whose exit status is lost.
const EXIT_UNKNOWN: &str = "exit_unknown";

/// What a call of this kind ended in.
pub(super) fn conclude(
    kind: &str,
    ending: Ending,
    printed: &Printed,
    time_limit: Duration,
) -> Outcome {
    let stderr = Message::clean_bytes(printed.stderr.to_bytes().trim_ascii());
    let stderr = stderr.as_str();
    let failure = match ending {
        Ending::Stopped => return Outcome::Stopped,
        Ending::Exited(status) if status.success() => return answered(kind, printed, stderr),
        Ending::Exited(status) => failed(status, printed, stderr),
        Ending::TimedOut => {
            let limit = HumanDuration::from(time_limit);
            let what = format!("the program took longer than its time limit of {limit}");
            Failure::timeout(&explain(&what, stderr))
        }
        Ending::Unknown(error) => {
            let what = format!("the program ended and nothing tells how: {error}");
            Failure::named(EXIT_UNKNOWN, Cause::Handler, &explain(&what, stderr))
        }
    };
    Outcome::Failed(failure)
}

/// Exit 0: the reply decides, and it must be one that the kind allows.
fn answered(kind: &str, printed: &Printed, stderr: &str) -> Outcome {
    let reply = Reply::parse(printed.stdout.line())
        .and_then(|reply| Reply::allowed_for(kind, reply))
        .map_err(|bad| {
            Failure::named(named::BAD_REPLY, Cause::Handler, &explain(&bad.to_string(), stderr))
        });
    match reply {
        Ok(None) => Outcome::Answered { value: None, verdict: None },
        Ok(Some(Reply::Ok { value, verdict })) => Outcome::Answered { value: Some(value), verdict },
        Ok(Some(Reply::Skip(why))) => Outcome::Skipped(why),
        Ok(Some(Reply::Error(error))) => {
            let unnamed =
                |message: &str| Failure::reported(None, Code::name(UNNAMED_ERROR), message);
            let what = error.message.as_deref().unwrap_or_default();
            let message = explain(what, stderr);
            let silent = "the program reported an error without a message";
            let message = if message.is_empty() { silent } else { &message };
            Outcome::Failed(error.failure(unnamed, message))
        }
        Err(failure) => Outcome::Failed(failure),
    }
}

/// A non-zero exit or a signal: an error that the program reported says more, anything else says
/// nothing.
fn failed(status: ExitStatus, printed: &Printed, stderr: &str) -> Failure {
    let by_status = |message: &str| match status.code().map(u8::try_from) {
        Some(Ok(code)) => Failure::exit(code, message),
        _ => Failure::signal(status.signal().unwrap_or_default(), message),
    };
    let (reported, what) = match Reply::parse(printed.stdout.line()) {
        Ok(Some(Reply::Error(error))) => {
            let what = error.message.clone().unwrap_or_default();
            (Some(error), what)
        }
        Ok(_) => (None, String::new()),
        Err(bad) => (None, bad.to_string()),
    };
    // A signal says what happened; an exit code only says that something did.
    let what = match what {
        what if !what.is_empty() => what,
        _ if status.signal().is_some() || stderr.is_empty() => {
            format!("the program ended with {status}")
        }
        what => what,
    };
    let message = explain(&what, stderr);
    match reported {
        Some(error) => error.failure(by_status, &message),
        None => by_status(&message),
    }
}

/// What happened, and then the end of stderr, which stays with the attempt.
fn explain(what: &str, stderr: &str) -> String {
    match (what, stderr) {
        (what, "") => what.to_owned(),
        ("", stderr) => stderr.to_owned(),
        (what, stderr) => format!("{what}\nstderr: {stderr}"),
    }
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
