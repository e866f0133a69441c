//! Waits for SIGINT (Ctrl-C) and SIGTERM.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{CommandError, Exit};

/// While this value lives, SIGINT and SIGTERM no longer end the program by themselves.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn new() -> Result<Self, CommandError> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                CommandError::new(Exit::Error, "cannot listen for signals").caused_by(error)
            })
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal. Returns its exit code.
    pub(crate) async fn next(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
        }
    }
}
