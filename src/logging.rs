//! Logs go to standard error; standard output is for results.

use std::io;

use tracing::Level;
use tracing_subscriber::{
    filter::Targets, layer::SubscriberExt, registry, util::SubscriberInitExt,
};

/// Starts logging. Redrive's own lines are shown from info on; every `-v` shows more, every `-q`
/// less. What other libraries have to say is shown from warnings on.
pub(crate) fn start(verbose: u8, quiet: u8) {
    let own = match i16::from(verbose) - i16::from(quiet) {
        ..=-2 => Level::ERROR,
        -1 => Level::WARN,
        0 => Level::INFO,
        1 => Level::DEBUG,
        2.. => Level::TRACE,
    };
    let levels = Targets::new().with_default(own.min(Level::WARN)).with_target("redrive", own);
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_target(false);
    // Only a second call could fail, and there is none.
    _ = registry().with(levels).with(lines).try_init();
}
