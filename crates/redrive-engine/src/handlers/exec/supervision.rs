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
        DRAIN_LIMIT, Group, Pipes, end,
        output::{CHUNK_BYTES, Ends, read},
    },
};
use redrive_retry::monotonic;

/// How long a program may take, and how long it has to end once that is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) time_limit: Duration,
    pub(super) grace: Duration,
}

/// What becomes of the output of a program.
pub(crate) trait Listener: Send {
    /// Whether all of it matters. Then it is taken for as long as the program may take, and it is known
    /// whether it came to its end; otherwise what comes long after the program's exit is not heard.
    const WANTS_ALL: bool;

    /// Takes what came. The program waits meanwhile. An error ends it: nobody wants the rest.
    fn hear(&mut self, chunk: &[u8]) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// A program that is gone, and what is left of it.
#[derive(Debug)]
pub(super) struct Supervised {
    pub(super) ending: Ending,
    pub(super) heard: Heard,
    /// Of stderr: both ends.
    pub(super) stderr: Ends,
    /// And its last line.
    pub(super) last_words: LastLine,
}

/// How a program ended.
#[derive(Debug)]
pub(super) enum Ending {
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
pub(super) enum Heard {
    /// All.
    Whole,
    /// Not all: something that it started holds its output and says nothing, or the pipe broke.
    Cut,
    /// Not all, because it was not wanted.
    Refused(Failure),
}

/// Why a program is no longer waited for.
enum Over {
    Exited,
    TimedOut,
    Stopped,
    Refused,
}

/// Feeds a program its input and keeps what it prints, until it ends or is ended. Then its whole
/// group is gone.
pub(super) async fn supervise<L: Listener>(
    mut group: Group,
    pipes: Pipes,
    input: &[u8],
    limits: Limits,
    stop: &mut Stop,
    listener: &mut L,
) -> Supervised {
    let begun = monotonic();
    let (mut stderr, mut last_words) = (Ends::default(), LastLine::default());
    let (mut over, heard) = {
        let (exited, exit) = watch::channel(false);
        let mut hearing = pin!(hear(pipes.stdout, listener, exit));
        let mut reading = pin!(read(pipes.stderr, |chunk| {
            stderr.push(chunk);
            last_words.push(chunk);
        }));
        let mut feeding = pin!(feed(pipes.stdin, input));
        let mut told = stop.clone();
        let mut ending = pin!(wait_or_end(&mut group, limits, stop));
        let (mut heard, mut all_read, mut all_fed) = (None, false, false);
        let mut over = loop {
            tokio::select! {
                biased;
                over = &mut ending => break over,
                end = &mut hearing, if heard.is_none() => {
                    let refused = matches!(end, Heard::Refused(_));
                    heard = Some(end);
                    if refused {
                        break Over::Refused;
                    }
                }
                () = &mut reading, if !all_read => all_read = true,
                () = &mut feeding, if !all_fed => all_fed = true,
            }
        };
        exited.send_replace(true);
        if heard.is_none() {
            let matters = L::WANTS_ALL && matches!(over, Over::Exited);
            let time_left = limits.time_limit.saturating_sub(begun.elapsed());
            let patience = if matters { time_left } else { DRAIN_LIMIT };
            tokio::select! {
                biased;
                end = timeout(patience, &mut hearing) => match end {
                    Ok(end) => heard = Some(end),
                    Err(_) if matters => over = Over::TimedOut,
                    Err(_) => {}
                },
                () = told.stopped(), if matters => over = Over::Stopped,
            }
        }
        if !all_read {
            _ = timeout(DRAIN_LIMIT, reading).await;
        }
        (over, heard.unwrap_or(Heard::Cut))
    };
    if matches!(over, Over::Refused) {
        end(&mut group, limits.grace).await;
        over = Over::Exited;
    }
    let ending = match (over, group.end()) {
        (Over::TimedOut, _) => Ending::TimedOut,
        (Over::Stopped, status) => Ending::Stopped(status.ok().flatten()),
        (Over::Exited | Over::Refused, Ok(Some(status))) => Ending::Exited(status),
        (Over::Exited | Over::Refused, Ok(None)) => {
            Ending::Unknown(io::ErrorKind::WouldBlock.into())
        }
        (Over::Exited | Over::Refused, Err(error)) => Ending::Unknown(error),
    };
    Supervised { ending, heard, stderr, last_words }
}

/// Hands on what a program prints. After its exit, silence is the end.
async fn hear(
    mut pipe: ChildStdout,
    listener: &mut impl Listener,
    mut exit: watch::Receiver<bool>,
) -> Heard {
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let length = tokio::select! {
            biased;
            length = pipe.read(&mut buffer) => length,
            () = silence(&mut exit) => return Heard::Cut,
        };
        let Ok(length) = length else { return Heard::Cut };
        let Some(chunk @ [_, ..]) = buffer.get(..length) else { return Heard::Whole };
        if let Err(failure) = listener.hear(chunk).await {
            return Heard::Refused(failure);
        }
    }
}

async fn silence(exit: &mut watch::Receiver<bool>) {
    // Whoever would tell of the exit is gone only together with the one who waits.
    _ = exit.wait_for(|exited| *exited).await;
    sleep(DRAIN_LIMIT).await;
}

/// Waits for the program; past its time, or told to stop, ends it: TERM, grace, KILL.
async fn wait_or_end(group: &mut Group, limits: Limits, stop: &mut Stop) -> Over {
    let over = tokio::select! {
        biased;
        () = group.exited() => return Over::Exited,
        () = stop.stopped() => Over::Stopped,
        () = sleep(limits.time_limit) => Over::TimedOut,
    };
    end(group, limits.grace).await;
    over
}

/// Writes the input and closes the pipe. A program need not read it.
async fn feed(mut stdin: ChildStdin, input: &[u8]) {
    _ = stdin.write_all(input).await;
}
