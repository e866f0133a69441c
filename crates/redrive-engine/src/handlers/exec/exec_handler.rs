//! The handler that starts a program for each call.

use std::time::Duration;

use async_trait::async_trait;
use redrive_core::Failure;

use super::{
    conclusion::conclude,
    last_line::LastLine,
    spec::ExecSpec,
    supervisor::{FinishedProgram, OutputSink, ProgramLimits, supervise},
};
use crate::{
    Call, CallLog, Handler, InvalidProgram, Outcome, Stop,
    handlers::program::{ProcessGroup, ProgramLauncher, environment},
};

/// Starts one program per call. Needs a tokio runtime with I/O and time enabled.
///
/// The exit code, and the last line of stdout if that is a [reply](crate::handlers::reply), decide the
/// outcome. The whole process group is killed about a second after the program has exited, so that children
/// can write their last lines. A child that leaves the group (`setsid`) keeps running; the handler does not
/// wait for it.
///
/// When the handler is stopped, it sends TERM. A program that then exits 0 with a reply `ok` has done its
/// work, and the attempt counts. Any other end may be due to the stop, and the attempt does not count.
#[derive(Debug)]
pub struct ExecHandler {
    pub(super) program: ProgramLauncher,
    grace: Duration,
}

impl ExecHandler {
    /// Checks a specification. Environment variables are read here, once.
    pub fn new(spec: ExecSpec) -> Result<Self, InvalidProgram> {
        let program = ProgramLauncher::new(spec.argv, &spec.folder, &spec.env)?;
        Ok(Self { program, grace: spec.grace })
    }
}

pub(crate) struct ProgramInput {
    /// Variables in addition to the inherited ones.
    pub(crate) variables: Vec<(String, String)>,
    /// Written to stdin, with its newline.
    pub(crate) line: String,
    pub(crate) log: CallLog,
}

impl From<&Call> for ProgramInput {
    fn from(call: &Call) -> Self {
        Self { variables: environment::of_call(call), line: call.to_line(), log: call.log.clone() }
    }
}

impl ExecHandler {
    pub(super) async fn run(
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
            .map_err(|error| Outcome::Failed(self.program.start_failure(&error)))?;
        let limits = ProgramLimits { time_limit, grace: self.grace };
        input.log.keep_secret(&self.program.secrets);
        Ok(supervise(group, pipes, input, limits, stop, sink).await)
    }
}

/// Stdout, of which the last line may be the reply. The lines before are what the program prints.
struct LoggedOutput<'a> {
    last: LastLine,
    log: &'a CallLog,
}

impl OutputSink for LoggedOutput<'_> {
    const NEEDS_ALL: bool = false;

    async fn receive(&mut self, chunk: &[u8]) -> Result<(), Failure> {
        self.last.push(chunk);
        self.log.push(chunk);
        Ok(())
    }
}

#[async_trait]
impl Handler for ExecHandler {
    async fn handle(&self, call: &Call, time_limit: Duration, mut stop: Stop) -> Outcome {
        let mut stdout = LoggedOutput { last: LastLine::default(), log: &call.log };
        match self.run(&call.into(), time_limit, &mut stop, &mut stdout).await {
            Ok(program) => {
                self.program.with_hint(conclude(call.kind(), program, &stdout.last, time_limit))
            }
            Err(outcome) => outcome,
        }
    }
}
