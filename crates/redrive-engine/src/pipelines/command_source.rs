//! A program that prints JSON lines, as a source.

use std::time::Duration;

use async_trait::async_trait;
use redrive_core::Failure;
use serde_json::json;

use super::{
    SOURCE_CHANGED, SampleSource, SampleWriter, SourceCall, SourceEnd, stage::final_failure,
};
use crate::{
    CallLog, ExecHandler, Outcome, Stop,
    handlers::exec::{OutputSink, ProgramInput},
};

/// A source has no time limit.
const NO_LIMIT: Duration = Duration::from_secs(10 * 365 * 24 * 3_600);

/// A program that prints JSON lines. To resume, the program runs again, and the lines that were read before are
/// skipped: the program must print them again, in the same order.
#[derive(Debug)]
pub struct CommandSource {
    program: ExecHandler,
    /// For operators.
    command: String,
}

impl CommandSource {
    pub fn new(program: ExecHandler, command: impl Into<String>) -> Self {
        Self { program, command: command.into() }
    }
}

/// Receives the output of the program.
struct ProgramOutput<'a> {
    writer: &'a mut SampleWriter,
    call: &'a SourceCall,
    /// The start of a line to skip whose end is not read yet.
    partial: Vec<u8>,
}

impl ProgramOutput<'_> {
    /// Skips the lines that were read before. Returns the rest of the chunk.
    fn skip<'b>(&mut self, mut chunk: &'b [u8]) -> &'b [u8] {
        while self.writer.lines() < self.call.position.lines
            && let Some(newline) = chunk.iter().position(|byte| *byte == b'\n')
        {
            let (line, rest) = chunk.split_at(newline + 1);
            self.partial.extend_from_slice(line);
            self.writer.skip(&self.partial);
            self.partial.clear();
            chunk = rest;
            if self.writer.lines() == self.call.position.lines {
                self.compare();
            }
        }
        if self.writer.lines() < self.call.position.lines {
            self.partial.extend_from_slice(chunk);
            return &[];
        }
        chunk
    }

    /// Other lines than before are a warning, not an error: they may be intended.
    fn compare(&self) {
        let SourceCall { pipeline, run, position } = self.call;
        if position.check.as_deref() != Some(&*self.writer.prefix_hash()) {
            tracing::warn!(
                pipeline,
                run = run.0,
                lines = position.lines,
                "the source printed other lines than before; the same number of lines is skipped"
            );
        }
    }
}

impl OutputSink for ProgramOutput<'_> {
    const NEEDS_ALL: bool = true;

    async fn receive(&mut self, chunk: &[u8]) -> Result<(), Failure> {
        let rest = self.skip(chunk);
        if self.writer.push(rest).await && self.writer.flush().await {
            return Ok(());
        }
        Err(final_failure("unwanted", "the rest of the source is not needed"))
    }
}

#[async_trait]
impl SampleSource for CommandSource {
    fn describe(&self) -> String {
        self.command.clone()
    }

    async fn read(&self, call: &SourceCall, writer: &mut SampleWriter, stop: Stop) -> SourceEnd {
        let run = call.run.to_string();
        let input = ProgramInput {
            variables: vec![
                ("REDRIVE_KIND".to_owned(), "source".to_owned()),
                ("REDRIVE_PIPELINE".to_owned(), call.pipeline.clone()),
                ("REDRIVE_RUN_ID".to_owned(), run.clone()),
            ],
            line: json!({ "kind": "source", "pipeline": call.pipeline, "run_id": run }).to_string()
                + "\n",
            log: CallLog::default(),
        };
        let mut output = ProgramOutput { writer, call, partial: Vec::new() };
        let outcome = self.program.run_for_output(&input, NO_LIMIT, stop, &mut output).await;
        let missing = call.position.lines.saturating_sub(writer.lines());
        match (writer.end(), outcome) {
            (SourceEnd::Done, Outcome::Answered { .. }) if missing > 0 => {
                let (lines, read) = (writer.lines(), call.position.lines);
                let message =
                    format!("the source printed {lines} lines, but {read} lines were read before");
                SourceEnd::Failed(final_failure(SOURCE_CHANGED, &message))
            }
            (SourceEnd::Done, Outcome::Answered { .. }) => writer.finish().await,
            (SourceEnd::Done, Outcome::Failed(failure)) => SourceEnd::Failed(failure),
            (SourceEnd::Done, Outcome::Stopped | Outcome::Skipped(_)) => SourceEnd::Stopped,
            (end, _) => end,
        }
    }
}
