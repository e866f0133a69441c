//! A program and what it started, as one process group.
//!
//! The group is named by its leader's process id. Once the leader is reaped and the group empty, the
//! system may give that number to somebody else, and a signal would hit a stranger. So the leader's
//! exit is noticed without reaping it (`waitid` with `WNOWAIT`, looked at whenever SIGCHLD comes);
//! the unreaped leader holds the number; and the group gets its KILL right before the reaping, which
//! is the last thing that happens. Nothing is ever sent after it.

use std::{io, process::ExitStatus};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::{
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    signal::unix::{self, SignalKind},
};

/// A process group, led by the program. Dropping it kills it; the runtime then reaps the leader.
pub(crate) struct ProcessGroup {
    leader: Child,
    id: Pid,
    children_change: unix::Signal,
    reaped: bool,
}

/// The pipes to a program.
pub(crate) struct Pipes {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
}

impl ProcessGroup {
    /// Starts a command as the leader of a new group.
    pub(crate) fn start(mut command: Command) -> io::Result<(Self, Pipes)> {
        // Before the start: an exit right after it must not go unheard.
        let children_change = unix::signal(SignalKind::child())?;
        let mut leader = command.process_group(0).kill_on_drop(true).spawn()?;
        let id = leader.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let pipes = (leader.stdin.take(), leader.stdout.take(), leader.stderr.take());
        match (id, pipes) {
            (Some(id), (Some(stdin), Some(stdout), Some(stderr))) => {
                let group = Self { leader, id, children_change, reaped: false };
                Ok((group, Pipes { stdin, stdout, stderr }))
            }
            _ => Err(io::Error::other("the program started without its pipes")),
        }
    }

    /// Waits until the leader has exited, and leaves it unreaped.
    pub(crate) async fn exited(&mut self) {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        // An error means that there is no such child any more, which is an end as well.
        while let Ok(None) = waitid(WaitId::Pid(self.id), look) {
            self.children_change.recv().await;
        }
    }

    /// Signals the whole group. Whoever is gone already needs none.
    pub(crate) fn signal(&self, signal: Signal) {
        if !self.reaped {
            _ = kill_process_group(self.id, signal);
        }
    }

    /// Kills what is left of the group and reaps its leader, if that has exited.
    pub(crate) fn end(mut self) -> io::Result<Option<ExitStatus>> {
        self.signal(Signal::KILL);
        let status = self.leader.try_wait();
        self.reaped = matches!(status, Ok(Some(_)));
        status
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
