//! From a started program to its end: feeding, reading, timing, ending.

use std::{io, pin::pin, process::ExitStatus, time::Duration};

use tokio::{
    io::AsyncWriteExt,
    process::ChildStdin,
    time::{sleep, timeout},
};

use super::last_line::Printed;
use crate::{
    Stop,
    program::{DRAIN_LIMIT, Group, Pipes, end, output::read},
};

/// How long a program may take, and how long it has to end once that is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) time_limit: Duration,
    pub(super) grace: Duration,
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

/// Why a program is no longer waited for.
enum Over {
    Exited,
    TimedOut,
    Stopped,
}

/// Feeds a program its input and keeps what it prints, until it ends or is ended. Then its whole
/// group is gone.
pub(super) async fn supervise(
    mut group: Group,
    pipes: Pipes,
    input: &[u8],
    limits: Limits,
    stop: &mut Stop,
) -> (Ending, Printed) {
    let mut printed = Printed::default();
    let over = {
        let Printed { stdout, stderr } = &mut printed;
        let mut reading = pin!(async {
            let stdout = read(pipes.stdout, |chunk| stdout.push(chunk));
            tokio::join!(stdout, read(pipes.stderr, |chunk| stderr.push(chunk)));
        });
        let mut feeding = pin!(feed(pipes.stdin, input));
        let mut ending = pin!(wait_or_end(&mut group, limits, stop));
        let (mut all_read, mut all_fed) = (false, false);
        let over = loop {
            tokio::select! {
                biased;
                over = &mut ending => break over,
                () = &mut reading, if !all_read => all_read = true,
                () = &mut feeding, if !all_fed => all_fed = true,
            }
        };
        if !all_read {
            _ = timeout(DRAIN_LIMIT, reading).await;
        }
        over
    };
    let ending = match (over, group.end()) {
        (Over::TimedOut, _) => Ending::TimedOut,
        (Over::Stopped, status) => Ending::Stopped(status.ok().flatten()),
        (Over::Exited, Ok(Some(status))) => Ending::Exited(status),
        (Over::Exited, Ok(None)) => Ending::Unknown(io::ErrorKind::WouldBlock.into()),
        (Over::Exited, Err(error)) => Ending::Unknown(error),
    };
    (ending, printed)
}

/// Waits for the program; past its time, or told to stop, ends it: TERM, grace, KILL.
async fn wait_or_end(group: &mut Group, limits: Limits, stop: &mut Stop) -> Over {
    let over = tokio::select! {
        biased;
        () = group.exited() => return Over::Exited,
        () = stop.told() => Over::Stopped,
        () = sleep(limits.time_limit) => Over::TimedOut,
    };
    end(group, limits.grace).await;
    over
}

/// Writes the input and closes the pipe. A program need not read it.
async fn feed(mut stdin: ChildStdin, input: &[u8]) {
    _ = stdin.write_all(input).await;
}
