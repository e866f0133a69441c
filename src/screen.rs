//! What is drawn at the bottom of a terminal while something goes on, and how lines get above it.

use std::{
    io::{self, Write},
    sync::{Mutex, PoisonError},
};

use indicatif::MultiProgress;

/// What is drawn now.
static BARS: Mutex<Option<MultiProgress>> = Mutex::new(None);

/// Keeps lines above these from now on.
pub(crate) fn show(bars: &MultiProgress) {
    set(Some(bars.clone()));
}

/// Nothing is drawn any more.
pub(crate) fn clear() {
    set(None);
}

fn set(bars: Option<MultiProgress>) {
    *BARS.lock().unwrap_or_else(PoisonError::into_inner) = bars;
}

/// Standard error, above what is drawn there.
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
