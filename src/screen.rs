//! Keeps progress bars at the bottom of the terminal and other lines above them; refreshes in place.

use std::{
    io::{self, Write},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use indicatif::MultiProgress;

/// Clears a terminal.
pub(crate) const CLEAR: &str = "\x1b[2J\x1b[H";

/// The shortest pause between two queries of the state of everything.
const MIN_PAUSE: Duration = Duration::from_secs(1);

/// The pause is this many times as long as the query, which may count every run.
const PAUSE_FACTOR: u32 = 20;

pub(crate) fn pause_after(query: Duration) -> Duration {
    MIN_PAUSE.max(query * PAUSE_FACTOR)
}

static BARS: Mutex<Option<MultiProgress>> = Mutex::new(None);

/// Registers the bars; later lines on standard error are printed above them.
pub(crate) fn show(bars: &MultiProgress) {
    set(Some(bars.clone()));
}

pub(crate) fn clear() {
    set(None);
}

fn set(bars: Option<MultiProgress>) {
    *BARS.lock().unwrap_or_else(PoisonError::into_inner) = bars;
}

/// Standard error, above the progress bars.
pub(crate) struct StderrAboveBars;

impl Write for StderrAboveBars {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bars = BARS.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let write = || io::stderr().lock().write(bytes);
        bars.map_or_else(write, |bars| bars.suspend(write))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().lock().flush()
    }
}
