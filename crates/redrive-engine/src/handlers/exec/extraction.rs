//! Extracts the rows that a program prints to stdout.
//!
//! The program blocks while the sink does, so that memory holds no more than a pipe. The exit code, and the
//! last line of stderr if that is a reply, decide the outcome: an error, or `ok` with metadata of the rows.

use std::{process::ExitStatus, time::Duration};

use async_trait::async_trait;
use redrive_core::{Cause, Failure};
use serde_json::{Map, Value};

use super::{
    ExecHandler, ProgramInput,
    conclusion::exit_unknown,
    last_line::LastLine,
    supervisor::{FinishedProgram, OutputRead, OutputSink, ProgramExit},
};
use crate::{
    Call, Extractor, Outcome, RowWriter, Stop,
    handlers::{
        program::report::{self, exit_failure, explain, explain_death, printable, timeout_failure},
        reply::Reply,
    },
};

/// The failure code of a program that exited while another process still holds its stdout open.
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
        let mut sink = RowSink { rows, last: LastLine::default() };
        let outcome = self.run_for_output(&call.into(), time_limit, stop, &mut sink).await;
        let is_unexplained = matches!(outcome, Outcome::Answered { value: None, .. });
        match instead_of_row(sink.last.line()).filter(|_| is_unexplained) {
            Some(error) => report::outcome(error, ""),
            None => outcome,
        }
    }
}

impl ExecHandler {
    /// Runs the program and passes all of its stdout to the sink.
    pub(crate) async fn run_for_output(
        &self,
        input: &ProgramInput,
        time_limit: Duration,
        mut stop: Stop,
        sink: &mut impl OutputSink,
    ) -> Outcome {
        match self.run(input, time_limit, &mut stop, sink).await {
            Ok(program) => self.program.with_hint(conclude(program, time_limit)),
            Err(outcome) => outcome,
        }
    }
}

struct RowSink<'a> {
    rows: &'a RowWriter,
    last: LastLine,
}

impl OutputSink for RowSink<'_> {
    const NEEDS_ALL: bool = true;

    async fn receive(&mut self, chunk: &[u8]) -> Result<(), Failure> {
        self.last.push(chunk);
        self.rows.write(chunk).await
    }
}

/// The error that a program printed to stdout, as other handlers do, instead of a last row. A row that has anything else
/// is a row.
fn instead_of_row(line: &[u8]) -> Option<Reply> {
    let row: Map<String, Value> = serde_json::from_slice(line).ok()?;
    let error = row.get("error").filter(|_| row.len() == 1)?.as_object()?;
    let known = ["code", "message", "class", "retry_after"];
    let is_reply = (error.contains_key("code") || error.contains_key("message"))
        && error.keys().all(|key| known.contains(&key.as_str()));
    Reply::of_object(row).ok().flatten().filter(|_| is_reply)
}

fn conclude(program: FinishedProgram, time_limit: Duration) -> Outcome {
    let stderr = printable(&program.stderr.to_bytes());
    let stderr = stderr.as_str();
    let failure = match (program.exit, program.output) {
        (_, OutputRead::Refused(failure)) => failure,
        // The rows so far may be incomplete.
        (ProgramExit::Stopped(_), _) => return Outcome::Stopped,
        (ProgramExit::TimedOut, _) => timeout_failure(time_limit, stderr),
        (ProgramExit::Unknown(error), _) => exit_unknown(&error, stderr),
        (ProgramExit::Exited(status), _) if !status.success() => {
            failed(status, &program.last_stderr_line, stderr)
        }
        (ProgramExit::Exited(_), OutputRead::Incomplete) => {
            let what = "the program ended, but a process it started still holds its stdout open, so \
                        rows may be missing";
            Failure::named(OUTPUT_OPEN, Cause::Handler, &explain(what, stderr))
        }
        (ProgramExit::Exited(_), OutputRead::Complete) => {
            return answered(&program.last_stderr_line);
        }
    };
    Outcome::Failed(failure)
}

/// Exit 0. Logs go to stderr too, so a line that is almost a reply is ignored.
fn answered(last_stderr_line: &LastLine) -> Outcome {
    match Reply::parse(last_stderr_line.line()) {
        Ok(Some(reply)) => report::outcome(reply, ""),
        Ok(None) | Err(_) => Outcome::Answered { value: None, verdict: None },
    }
}

/// A non-zero exit or a signal. An error that the program reported takes precedence.
fn failed(status: ExitStatus, last_stderr_line: &LastLine, stderr: &str) -> Failure {
    match Reply::parse(last_stderr_line.line()) {
        Ok(Some(Reply::Error(error))) => {
            let message = error.message.clone().unwrap_or_else(|| ended_with(status));
            error.failure(|message| exit_failure(status, message), &message)
        }
        _ if status.code().is_none() || stderr.is_empty() => {
            exit_failure(status, &explain_death(&ended_with(status), stderr))
        }
        _ => exit_failure(status, &explain_death("", stderr)),
    }
}

fn ended_with(status: ExitStatus) -> String {
    format!("the program ended with {status}")
}
