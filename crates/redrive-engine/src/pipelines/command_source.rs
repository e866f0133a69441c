//! A program that prints JSON lines.

use std::time::Duration;

use async_trait::async_trait;
use redrive_core::Failure;
use serde_json::json;

use super::{SOURCE_CHANGED, SampleSource, SampleWriter, SourceCall, SourceEnd, stage::for_good};
use crate::{
    ExecHandler, Outcome, Stop,
    handlers::exec::{OutputSink, ProgramInput},
};

/// A source may go on for as long as it likes.
const NO_LIMIT: Duration = Duration::from_secs(10 * 365 * 24 * 3_600);

/// A program that prints JSON lines. To read on it is run again, and the lines that were read before
/// are passed over: it must print them again, in the same order.
#[derive(Debug)]
pub struct CommandSource {
    program: ExecHandler,
    /// The command, for people.
    command: String,
}

impl CommandSource {
    /// The lines that a program prints.
    pub fn new(program: ExecHandler, command: impl Into<String>) -> Self {
        Self { program, command: command.into() }
    }
}

/// Receives what the program prints.
struct Printed<'a> {
    feed: &'a mut SampleWriter,
    call: &'a SourceCall,
    /// A line of those to pass over whose end has not come yet.
    partial: Vec<u8>,
}

impl Printed<'_> {
    /// Passes over what was read before, and hands on the rest.
    fn pass_over<'b>(&mut self, mut chunk: &'b [u8]) -> &'b [u8] {
        while self.feed.lines() < self.call.position.lines
            && let Some(newline) = chunk.iter().position(|byte| *byte == b'\n')
        {
            let (line, rest) = chunk.split_at(newline + 1);
            self.partial.extend_from_slice(line);
            self.feed.pass_over(&self.partial);
            self.partial.clear();
            chunk = rest;
            if self.feed.lines() == self.call.position.lines {
                self.compare();
            }
        }
        if self.feed.lines() < self.call.position.lines {
            self.partial.extend_from_slice(chunk);
            return &[];
        }
        chunk
    }

    /// A program that prints something else the second time may do so on purpose.
    fn compare(&self) {
        let SourceCall { pipeline, run, position } = self.call;
        if position.check.as_deref() != Some(&*self.feed.check()) {
            tracing::warn!(
                pipeline,
                run = run.0,
                lines = position.lines,
                "the source prints other lines than before; as many are passed over all the same"
            );
        }
    }
}

impl OutputSink for Printed<'_> {
    const NEEDS_ALL: bool = true;

    async fn receive(&mut self, chunk: &[u8]) -> Result<(), Failure> {
        let rest = self.pass_over(chunk);
        if self.feed.push(rest).await && self.feed.flush().await {
            return Ok(());
        }
        Err(for_good("unwanted", "nobody wants the rest"))
    }
}

#[async_trait]
impl SampleSource for CommandSource {
    fn describe(&self) -> String {
        self.command.clone()
    }

    async fn read(&self, call: &SourceCall, feed: &mut SampleWriter, stop: Stop) -> SourceEnd {
        let run = call.run.to_string();
        let input = ProgramInput {
            variables: vec![
                ("REDRIVE_KIND".to_owned(), "source".to_owned()),
                ("REDRIVE_PIPELINE".to_owned(), call.pipeline.clone()),
                ("REDRIVE_RUN_ID".to_owned(), run.clone()),
            ],
            line: json!({ "kind": "source", "pipeline": call.pipeline, "run_id": run }).to_string()
                + "\n",
        };
        let mut printed = Printed { feed, call, partial: Vec::new() };
        let outcome = self.program.run_for_output(&input, NO_LIMIT, stop, &mut printed).await;
        let missing = call.position.lines.saturating_sub(feed.lines());
        match (feed.end(), outcome) {
            (SourceEnd::Done, Outcome::Answered { .. }) if missing > 0 => {
                let (lines, read) = (feed.lines(), call.position.lines);
                let message = format!("it printed {lines} lines, and {read} were read before");
                SourceEnd::Failed(for_good(SOURCE_CHANGED, &message))
            }
            (SourceEnd::Done, Outcome::Answered { .. }) => feed.finish().await,
            (SourceEnd::Done, Outcome::Failed(failure)) => SourceEnd::Failed(failure),
            (SourceEnd::Done, Outcome::Stopped | Outcome::Skipped(_)) => SourceEnd::Stopped,
            (end, _) => end,
        }
    }
}
