//! How a program is ended, and how long its end may take.

use std::time::Duration;

use rustix::process::Signal;
use tokio::time::timeout;

use super::ProcessGroup;

/// How long the pipes are read on after the program has exited. Children that still write get this
/// much; a child that merely holds a pipe open cannot hang a call.
pub(crate) const DRAIN_LIMIT: Duration = Duration::from_secs(1);

/// How long a killed program is waited for. One that the kernel holds (a dead network disk) cannot
/// leave; the runtime reaps it when it does.
pub(crate) const KILL_LIMIT: Duration = Duration::from_secs(5);

/// Ends a program and what it started: TERM, grace, KILL.
pub(crate) async fn terminate(group: &mut ProcessGroup, grace: Duration) {
    group.signal(Signal::TERM);
    if timeout(grace, group.exited()).await.is_err() {
        group.signal(Signal::KILL);
        _ = timeout(KILL_LIMIT, group.exited()).await;
    }
}
