//! From a started program to its end: feeding, reading, timing, ending.

use std::{future::Future, io, pin::pin, process::ExitStatus, time::Duration};

use redrive_core::Failure;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{ChildStdin, ChildStdout},
    sync::watch,
    time::{sleep, timeout},
};

use super::last_line::LastLine;
use crate::{
    Stop,
    handlers::program::{
        DRAIN_LIMIT, Pipes, ProcessGroup,
        output::{CHUNK_BYTES, HeadAndTail, read},
        terminate,
    },
};
use redrive_retry::monotonic;

/// How long a program may take, and how long it has to end once that is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProgramLimits {
    pub(super) time_limit: Duration,
    pub(super) grace: Duration,
}

/// What becomes of the output of a program.
pub(crate) trait OutputSink: Send {
    /// Whether all of it matters. Then it is taken for as long as the program may take, and it is known
    /// whether it came to its end; otherwise what comes long after the program's exit is not heard.
    const NEEDS_ALL: bool;

    /// Takes what came. The program waits meanwhile. An error ends it: nobody wants the rest.
    fn receive(&mut self, chunk: &[u8]) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// A program that is gone, and what is left of it.
#[derive(Debug)]
pub(super) struct FinishedProgram {
    pub(super) ending: ProgramExit,
    pub(super) output: OutputRead,
    /// Of stderr: both ends.
    pub(super) stderr: HeadAndTail,
    /// And its last line.
    pub(super) last_stderr_line: LastLine,
}

/// How a program ended.
#[derive(Debug)]
pub(super) enum ProgramExit {
    /// By itself, in time.
    Exited(ExitStatus),
    /// It did not end in time, and was ended.
    TimedOut,
    /// It was ended because the worker stops; how, if it was gone by then.
    Stopped(Option<ExitStatus>),
    /// It ended, and somebody else took its exit status.
    Unknown(io::Error),
}

/// How much of its output was heard.
#[derive(Debug)]
pub(super) enum OutputRead {
    /// All.
    Complete,
    /// Not all: something that it started holds its output and says nothing, or the pipe broke.
    Incomplete,
    /// Not all, because it was not wanted.
    Refused(Failure),
}

/// Why a program is no longer waited for.
enum StopCause {
    Exited,
    TimedOut,
    Stopped,
    Refused,
}

/// Feeds a program its input and keeps what it prints, until it ends or is ended. Then its whole
/// group is gone.
pub(super) async fn supervise<L: OutputSink>(
    mut group: ProcessGroup,
    pipes: Pipes,
    input: &[u8],
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
        }));
        let mut feeding = pin!(feed(pipes.stdin, input));
        let mut stop_again = stop.clone();
        let mut ending = pin!(wait_or_end(&mut group, limits, stop));
        let (mut output, mut all_read, mut all_fed) = (None, false, false);
        let mut cause = loop {
            tokio::select! {
                biased;
                cause = &mut ending => break cause,
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
                () = stop_again.stopped(), if matters => cause = StopCause::Stopped,
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
    let ending = match (cause, group.end()) {
        (StopCause::TimedOut, _) => ProgramExit::TimedOut,
        (StopCause::Stopped, status) => ProgramExit::Stopped(status.ok().flatten()),
        (StopCause::Exited | StopCause::Refused, Ok(Some(status))) => ProgramExit::Exited(status),
        (StopCause::Exited | StopCause::Refused, Ok(None)) => {
            ProgramExit::Unknown(io::ErrorKind::WouldBlock.into())
        }
        (StopCause::Exited | StopCause::Refused, Err(error)) => ProgramExit::Unknown(error),
    };
    FinishedProgram { ending, output, stderr, last_stderr_line }
}

/// Hands on what a program prints. After its exit, silence is the end.
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
            () = silence(&mut exit) => return OutputRead::Incomplete,
        };
        let Ok(length) = length else { return OutputRead::Incomplete };
        let Some(chunk @ [_, ..]) = buffer.get(..length) else { return OutputRead::Complete };
        if let Err(failure) = sink.receive(chunk).await {
            return OutputRead::Refused(failure);
        }
    }
}

async fn silence(exit: &mut watch::Receiver<bool>) {
    // Whoever would tell of the exit is gone only together with the one who waits.
    _ = exit.wait_for(|exited| *exited).await;
    sleep(DRAIN_LIMIT).await;
}

/// Waits for the program; past its time, or told to stop, ends it: TERM, grace, KILL.
async fn wait_or_end(
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

/// Writes the input and closes the pipe. A program need not read it.
async fn feed(mut stdin: ChildStdin, input: &[u8]) {
    _ = stdin.write_all(input).await;
}
