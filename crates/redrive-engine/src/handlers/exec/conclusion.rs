//! Makes an outcome of the exit and the output of a program.

use std::{io, os::unix::process::ExitStatusExt, process::ExitStatus, time::Duration};

use redrive_core::{Cause, Failure, named};

use super::{
    last_line::LastLine,
    supervisor::{FinishedProgram, ProgramExit},
};
use crate::{
    Outcome,
    handlers::{
        program::report::{
            bad_reply_failure, exit_failure, explain, explain_death, outcome, printable,
            timeout_failure,
        },
        reply::Reply,
    },
};

pub(super) fn conclude(
    kind: &str,
    program: FinishedProgram,
    stdout: &LastLine,
    time_limit: Duration,
) -> Outcome {
    let stderr = printable(&program.stderr.to_bytes());
    let stderr = stderr.as_str();
    let failure = match program.exit {
        ProgramExit::Stopped(status) => return stopped(kind, status, stdout),
        ProgramExit::Exited(status) if status.success() => return answered(kind, stdout, stderr),
        ProgramExit::Exited(status) => failed(status, stdout, stderr),
        ProgramExit::TimedOut => timeout_failure(time_limit, stderr),
        ProgramExit::Unknown(error) => exit_unknown(&error, stderr),
    };
    Outcome::Failed(failure)
}

pub(super) fn exit_unknown(error: &io::Error, stderr: &str) -> Failure {
    let what = format!("the program ended and its exit status is unknown: {error}");
    Failure::named(named::EXIT_UNKNOWN, Cause::Handler, &explain(&what, stderr))
}

/// Exit 0: the reply decides, and the kind of unit must allow it.
fn answered(kind: &str, stdout: &LastLine, stderr: &str) -> Outcome {
    let reply = Reply::parse(stdout.line());
    match reply.and_then(|reply| Reply::allowed_for(kind, reply)) {
        Ok(None) => Outcome::Answered { value: None, verdict: None },
        Ok(Some(reply)) => outcome(reply, stderr),
        Err(bad) => Outcome::Failed(bad_reply_failure(&bad, stderr)),
    }
}

/// Stopped: only a program that explicitly reports success has done its work. A missing reply proves
/// nothing, and an error may be due to the stop.
fn stopped(kind: &str, status: Option<ExitStatus>, stdout: &LastLine) -> Outcome {
    if !status.is_some_and(|status| status.success()) {
        return Outcome::Stopped;
    }
    let reply = Reply::parse(stdout.line());
    match reply.and_then(|reply| Reply::allowed_for(kind, reply)) {
        Ok(Some(reply @ (Reply::Ok { .. } | Reply::Skip(_)))) => outcome(reply, ""),
        Ok(Some(Reply::Error(_)) | None) | Err(_) => Outcome::Stopped,
    }
}

/// A non-zero exit or a signal: an error that the program reported says more, anything else says
/// nothing.
fn failed(status: ExitStatus, stdout: &LastLine, stderr: &str) -> Failure {
    let (reported, what) = match Reply::parse(stdout.line()) {
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
    match reported {
        Some(error) => {
            error.failure(|message| exit_failure(status, message), &explain(&what, stderr))
        }
        None => exit_failure(status, &explain_death(&what, stderr)),
    }
}
