//! Terminates a program, with a limit on every wait.

use std::time::Duration;

use rustix::process::Signal;
use tokio::time::timeout;

use super::ProcessGroup;

/// How long the pipes are read after the program has exited. Children may write their last lines in this
/// time; a child that merely holds a pipe open cannot hang a call.
pub(crate) const DRAIN_LIMIT: Duration = Duration::from_secs(1);

/// How long to wait for a killed program. A program that blocks in the kernel (on a dead network disk)
/// cannot exit; the runtime reaps it when it does.
pub(crate) const KILL_LIMIT: Duration = Duration::from_secs(5);

/// Terminates a program and its children: TERM, grace, KILL.
pub(crate) async fn terminate(group: &mut ProcessGroup, grace: Duration) {
    group.signal(Signal::TERM);
    if timeout(grace, group.exited()).await.is_err() {
        group.signal(Signal::KILL);
        _ = timeout(KILL_LIMIT, group.exited()).await;
    }
}
