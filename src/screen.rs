//! Keeps progress bars at the bottom of the terminal and other lines above them.

use std::{
    io::{self, Write},
    sync::{Mutex, PoisonError},
};

use indicatif::MultiProgress;

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
