//! A program started for each unit (HANDLERS-2).
//!
//! The way of a call: a [`program`](crate::handlers::program) is started with the call in its environment,
//! [`supervision`] feeds, reads and times it, [`last_line`] keeps the line that may be its reply, and
//! [`conclusion`] makes an outcome of it. Of an extractor
//! every line counts: [`extraction`] hands them on.

mod spec;

mod last_line;
mod supervisor;

mod conclusion;
mod extraction;

use std::time::Duration;

use async_trait::async_trait;

pub use self::spec::ExecSpec;
pub(crate) use self::supervisor::OutputSink;
use self::{
    conclusion::conclude,
    last_line::LastLine,
    supervisor::{FinishedProgram, ProgramLimits, supervise},
};
use crate::{
    Call, Handler, InvalidProgram, Outcome, Stop,
    handlers::program::{ProcessGroup, ProgramLauncher, environment},
};

/// Handles each call by a program of its own. It needs a runtime with I/O and time enabled.
///
/// The program's exit code, and the last line it prints if that is a [reply](crate::handlers::reply), say how
/// the call ended. Whatever it started in its process group ends with it: about a second after the
/// program itself, so that a child that still writes its last lines can do so. A child that leaves
/// the group (`setsid`) is left alone, and not waited for longer than that.
///
/// Told to stop, it is sent TERM. If it then exits 0 with a reply `ok`, the work is done and counts;
/// anything else it says by then may be due to the stop, and the attempt does not count.
#[derive(Debug)]
pub struct ExecHandler {
    program: ProgramLauncher,
    grace: Duration,
}

impl ExecHandler {
    /// Checks a specification. The environment is read here, once.
    pub fn new(spec: ExecSpec) -> Result<Self, InvalidProgram> {
        let program = ProgramLauncher::new(spec.argv, &spec.folder, &spec.env)?;
        Ok(Self { program, grace: spec.grace })
    }
}

/// What a program is told.
pub(crate) struct ProgramInput {
    /// Variables beside those that every program gets.
    pub(crate) variables: Vec<(String, String)>,
    /// What it reads.
    pub(crate) line: String,
}

impl From<&Call> for ProgramInput {
    fn from(call: &Call) -> Self {
        Self { variables: environment::of_call(call), line: call.to_line() }
    }
}

impl ExecHandler {
    /// Runs the program for a call.
    async fn run(
        &self,
        input: &ProgramInput,
        time_limit: Duration,
        stop: &mut Stop,
        sink: &mut impl OutputSink,
    ) -> Result<FinishedProgram, Outcome> {
        if stop.is_stopped() {
            return Err(Outcome::Stopped);
        }
        let mut command = self.program.command();
        command.envs(input.variables.iter().map(|(name, value)| (name, value)));
        let (group, pipes) = ProcessGroup::start(command)
            .map_err(|error| Outcome::Failed(self.program.cannot_start(&error)))?;
        let limits = ProgramLimits { time_limit, grace: self.grace };
        Ok(supervise(group, pipes, input.line.as_bytes(), limits, stop, sink).await)
    }
}

#[async_trait]
impl Handler for ExecHandler {
    async fn handle(&self, call: &Call, time_limit: Duration, mut stop: Stop) -> Outcome {
        let mut stdout = LastLine::default();
        match self.run(&call.into(), time_limit, &mut stop, &mut stdout).await {
            Ok(program) => conclude(call.kind(), program, &stdout, time_limit),
            Err(outcome) => outcome,
        }
    }
}
