//! A program and its children, as one process group.
//!
//! The id of the group is the process id of its leader. Once the leader is reaped and the group is empty,
//! the system may reuse the id, and a signal would hit an unrelated process. So the exit of the leader is
//! detected without reaping it (`waitid` with `WNOWAIT`, on every SIGCHLD); the unreaped leader reserves
//! the id. The group gets its KILL right before the leader is reaped, and no signal after that.

use std::{io, process::ExitStatus};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::{
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    signal::unix::{self, SignalKind},
};

/// Dropping it kills the group; the runtime then reaps the leader.
pub(crate) struct ProcessGroup {
    leader: Child,
    id: Pid,
    children_change: unix::Signal,
    reaped: bool,
}

pub(crate) struct Pipes {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
}

impl ProcessGroup {
    /// Starts a command as the leader of a new group.
    pub(crate) fn start(mut command: Command) -> io::Result<(Self, Pipes)> {
        // Before the start, so that an exit right after it is noticed.
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

    /// Waits until the leader has exited, without reaping it.
    pub(crate) async fn exited(&mut self) {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        // An error means that the child is gone, so the program has ended.
        while let Ok(None) = waitid(WaitId::Pid(self.id), look) {
            self.children_change.recv().await;
        }
    }

    /// Signals the whole group. Errors are ignored: processes that have exited need no signal.
    pub(crate) fn signal(&self, signal: Signal) {
        if !self.reaped {
            _ = kill_process_group(self.id, signal);
        }
    }

    /// Kills the rest of the group, and reaps the leader if it has exited.
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
