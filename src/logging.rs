//! Logs go to standard error; standard output is for results.
//!
//! One event is one line, as text for people or as a JSON object for programs. What Redrive logs
//! often came from elsewhere, so neither form lets a control character through: not to a terminal,
//! and not into a file that someone will look at on one.

mod fields;
mod json;
mod text;

use std::io;

use tracing::Level;
use tracing_subscriber::{
    filter::Targets, layer::SubscriberExt, registry, util::SubscriberInitExt,
};

pub(crate) use text::one_line;

use crate::{
    cli::{Globals, LogFormat},
    screen,
};

/// Starts logging. Redrive's own lines are shown from info on; every `-v` shows more, every `-q`
/// less. What other libraries have to say is shown from warnings on.
pub(crate) fn start(globals: &Globals) {
    let own = match i16::from(globals.verbose) - i16::from(globals.quiet) {
        ..=-2 => Level::ERROR,
        -1 => Level::WARN,
        0 => Level::INFO,
        1 => Level::DEBUG,
        2.. => Level::TRACE,
    };
    let levels = Targets::new().with_default(own.min(Level::WARN)).with_target("redrive", own);
    let lines = tracing_subscriber::fmt::layer().with_writer(|| screen::StderrAboveBars);
    let registry = registry().with(levels);
    // Only a second call could fail, and there is none.
    _ = match globals.log_format {
        LogFormat::Json => registry.with(lines.event_format(json::JsonFormatter)).try_init(),
        LogFormat::Text => {
            let color = globals.color.applies_to(&io::stderr());
            registry.with(lines.event_format(text::TextFormatter { color })).try_init()
        }
    };
}
