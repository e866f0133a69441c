//! Runs a started program to its end: writes its input, reads its output, enforces its limits.

use std::{future::Future, io, pin::pin, process::ExitStatus, time::Duration};

use redrive_core::Failure;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{ChildStdin, ChildStdout},
    sync::watch,
    time::{sleep, timeout},
};

use super::{exec_handler::ProgramInput, last_line::LastLine};
use crate::{
    Stop,
    handlers::program::{
        DRAIN_LIMIT, Pipes, ProcessGroup,
        output::{CHUNK_BYTES, HeadAndTail, read},
        terminate,
    },
};
use redrive_retry::monotonic;

#[derive(Debug, Clone, Copy)]
pub(super) struct ProgramLimits {
    pub(super) time_limit: Duration,
    /// The time between TERM and KILL.
    pub(super) grace: Duration,
}

/// Receives the stdout of a program.
pub(crate) trait OutputSink: Send {
    /// Whether all output matters. If so, output is read until the time limit of the program; otherwise
    /// only for [`DRAIN_LIMIT`] after its exit.
    const NEEDS_ALL: bool;

    /// Takes a chunk; the program blocks meanwhile. An error terminates the program.
    fn receive(&mut self, chunk: &[u8]) -> impl Future<Output = Result<(), Failure>> + Send;
}

#[derive(Debug)]
pub(super) struct FinishedProgram {
    pub(super) exit: ProgramExit,
    pub(super) output: OutputRead,
    pub(super) stderr: HeadAndTail,
    pub(super) last_stderr_line: LastLine,
}

#[derive(Debug)]
pub(super) enum ProgramExit {
    Exited(ExitStatus),
    TimedOut,
    /// The worker stops. `None` if the program did not exit even after KILL.
    Stopped(Option<ExitStatus>),
    /// The program ended, but its exit status could not be read.
    Unknown(io::Error),
}

/// How much of stdout was read.
#[derive(Debug)]
pub(super) enum OutputRead {
    Complete,
    /// A child holds the pipe open without writing, or the pipe broke.
    Incomplete,
    /// The sink refused a chunk.
    Refused(Failure),
}

enum StopCause {
    Exited,
    TimedOut,
    Stopped,
    Refused,
}

/// Runs a program until it exits or is terminated. Its whole process group is gone when this returns.
pub(super) async fn supervise<L: OutputSink>(
    mut group: ProcessGroup,
    pipes: Pipes,
    input: &ProgramInput,
    limits: ProgramLimits,
    stop: &mut Stop,
    sink: &mut L,
) -> FinishedProgram {
    let started = monotonic();
    let (mut stderr, mut last_stderr_line) = (HeadAndTail::default(), LastLine::default());
    let (mut cause, output) = {
        let (exited, exit) = watch::channel(false);
        let mut reading_stdout = pin!(read_output(pipes.stdout, sink, exit));
        let mut reading_stderr = pin!(read(pipes.stderr, |chunk| {
            stderr.push(chunk);
            last_stderr_line.push(chunk);
            input.log.push(chunk);
        }));
        let mut feeding = pin!(feed(pipes.stdin, input.line.as_bytes()));
        let mut stop_while_draining = stop.clone();
        let mut waiting = pin!(wait_or_terminate(&mut group, limits, stop));
        let (mut output, mut all_read, mut all_fed) = (None, false, false);
        let mut cause = loop {
            tokio::select! {
                biased;
                cause = &mut waiting => break cause,
                end = &mut reading_stdout, if output.is_none() => {
                    let refused = matches!(end, OutputRead::Refused(_));
                    output = Some(end);
                    if refused {
                        break StopCause::Refused;
                    }
                }
                () = &mut reading_stderr, if !all_read => all_read = true,
                () = &mut feeding, if !all_fed => all_fed = true,
            }
        };
        exited.send_replace(true);
        if output.is_none() {
            let matters = L::NEEDS_ALL && matches!(cause, StopCause::Exited);
            let time_left = limits.time_limit.saturating_sub(started.elapsed());
            let patience = if matters { time_left } else { DRAIN_LIMIT };
            tokio::select! {
                biased;
                end = timeout(patience, &mut reading_stdout) => match end {
                    Ok(end) => output = Some(end),
                    Err(_) if matters => cause = StopCause::TimedOut,
                    Err(_) => {}
                },
                () = stop_while_draining.stopped(), if matters => cause = StopCause::Stopped,
            }
        }
        if !all_read {
            _ = timeout(DRAIN_LIMIT, reading_stderr).await;
        }
        (cause, output.unwrap_or(OutputRead::Incomplete))
    };
    if matches!(cause, StopCause::Refused) {
        terminate(&mut group, limits.grace).await;
        cause = StopCause::Exited;
    }
    let exit = match (cause, group.end()) {
        (StopCause::TimedOut, _) => ProgramExit::TimedOut,
        (StopCause::Stopped, status) => ProgramExit::Stopped(status.ok().flatten()),
        (StopCause::Exited | StopCause::Refused, Ok(Some(status))) => ProgramExit::Exited(status),
        (StopCause::Exited | StopCause::Refused, Ok(None)) => {
            ProgramExit::Unknown(io::ErrorKind::WouldBlock.into())
        }
        (StopCause::Exited | StopCause::Refused, Err(error)) => ProgramExit::Unknown(error),
    };
    FinishedProgram { exit, output, stderr, last_stderr_line }
}

/// Passes stdout to the sink, until its end or until nothing comes for [`DRAIN_LIMIT`] after the exit.
async fn read_output(
    mut pipe: ChildStdout,
    sink: &mut impl OutputSink,
    mut exit: watch::Receiver<bool>,
) -> OutputRead {
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let length = tokio::select! {
            biased;
            length = pipe.read(&mut buffer) => length,
            () = drained(&mut exit) => return OutputRead::Incomplete,
        };
        let Ok(length) = length else { return OutputRead::Incomplete };
        let Some(chunk @ [_, ..]) = buffer.get(..length) else { return OutputRead::Complete };
        if let Err(failure) = sink.receive(chunk).await {
            return OutputRead::Refused(failure);
        }
    }
}

async fn drained(exit: &mut watch::Receiver<bool>) {
    // The sender lives as long as this future.
    _ = exit.wait_for(|exited| *exited).await;
    sleep(DRAIN_LIMIT).await;
}

/// Waits for the exit. After the time limit or a stop, terminates the program.
async fn wait_or_terminate(
    group: &mut ProcessGroup,
    limits: ProgramLimits,
    stop: &mut Stop,
) -> StopCause {
    let cause = tokio::select! {
        biased;
        () = group.exited() => return StopCause::Exited,
        () = stop.stopped() => StopCause::Stopped,
        () = sleep(limits.time_limit) => StopCause::TimedOut,
    };
    terminate(group, limits.grace).await;
    cause
}

/// Writes the input and closes the pipe. Errors are ignored: a program need not read its input.
async fn feed(mut stdin: ChildStdin, input: &[u8]) {
    _ = stdin.write_all(input).await;
}
