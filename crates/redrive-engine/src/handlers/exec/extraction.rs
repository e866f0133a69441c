//! A program that prints rows: all of its stdout, as it comes.
//!
//! The program waits while the sink does, so that no more is in memory than a pipe holds. How it went is
//! said by its exit code and the last line of stderr, if that is a reply: an error, or `ok` with what is
//! to be known of the rows.

use std::{process::ExitStatus, time::Duration};

use async_trait::async_trait;
use redrive_core::{Cause, Failure};

use super::{
    ExecHandler, Input,
    conclusion::exit_unknown,
    last_line::LastLine,
    supervision::{Ending, Heard, Listener, Supervised},
};
use crate::{
    Call, Extractor, Outcome, RowWriter, Stop,
    handlers::{
        program::report::{by_status, explain, legible, outcome, took_too_long},
        reply::Reply,
    },
};

/// The code of a program that left its output to others, who hold it open.
const OUTPUT_OPEN: &str = "output_open";

#[async_trait]
impl Extractor for ExecHandler {
    async fn extract(
        &self,
        call: &Call,
        rows: &RowWriter,
        time_limit: Duration,
        stop: Stop,
    ) -> Outcome {
        self.print(&call.into(), time_limit, stop, &mut Rows(rows)).await
    }
}

impl ExecHandler {
    /// Runs the program for all that it prints.
    pub(crate) async fn print(
        &self,
        input: &Input,
        time_limit: Duration,
        mut stop: Stop,
        listener: &mut impl Listener,
    ) -> Outcome {
        match self.run(input, time_limit, &mut stop, listener).await {
            Ok(program) => conclude(program, time_limit),
            Err(outcome) => outcome,
        }
    }
}

struct Rows<'a>(&'a RowWriter);

impl Listener for Rows<'_> {
    const WANTS_ALL: bool = true;

    async fn hear(&mut self, chunk: &[u8]) -> Result<(), Failure> {
        self.0.write(chunk).await
    }
}

fn conclude(program: Supervised, time_limit: Duration) -> Outcome {
    let stderr = legible(&program.stderr.to_bytes());
    let stderr = stderr.as_str();
    let failure = match (program.ending, program.heard) {
        (_, Heard::Refused(failure)) => failure,
        // What it wrote by then may be a part of its rows.
        (Ending::Stopped(_), _) => return Outcome::Stopped,
        (Ending::TimedOut, _) => took_too_long(time_limit, stderr),
        (Ending::Unknown(error), _) => exit_unknown(&error, stderr),
        (Ending::Exited(status), _) if !status.success() => {
            failed(status, &program.last_words, stderr)
        }
        (Ending::Exited(_), Heard::Cut) => {
            let what = "the program ended, and something it started still holds its output: rows \
                        may be missing";
            Failure::named(OUTPUT_OPEN, Cause::Handler, &explain(what, stderr))
        }
        (Ending::Exited(_), Heard::Whole) => return answered(&program.last_words),
    };
    Outcome::Failed(failure)
}

/// Exit 0. Logs are on stderr too, so what merely looks like a reply is none.
fn answered(last_words: &LastLine) -> Outcome {
    match Reply::parse(last_words.line()) {
        Ok(Some(reply)) => outcome(reply, ""),
        Ok(None) | Err(_) => Outcome::Answered { value: None, verdict: None },
    }
}

/// A non-zero exit or a signal: an error that the program reported says more.
fn failed(status: ExitStatus, last_words: &LastLine, stderr: &str) -> Failure {
    match Reply::parse(last_words.line()) {
        Ok(Some(Reply::Error(error))) => {
            let message = error.message.clone().unwrap_or_else(|| ended_with(status));
            error.failure(|message| by_status(status, message), &message)
        }
        _ if status.code().is_none() => by_status(status, &explain(&ended_with(status), stderr)),
        _ if stderr.is_empty() => by_status(status, &ended_with(status)),
        _ => by_status(status, stderr),
    }
}

fn ended_with(status: ExitStatus) -> String {
    format!("the program ended with {status}")
}
