//! Writes logs to standard error; standard output is for results.
//!
//! One event is one line, as text for people or as a JSON object for programs. Log messages often
//! quote text from handlers and servers, so both formats remove control characters, which could
//! manipulate a terminal.

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

/// Starts logging. Redrive's own events are logged from level info; every `-v` lowers the level, every
/// `-q` raises it. Events of other libraries are logged from level warn.
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
    // Only a second call could fail.
    _ = match globals.log_format {
        LogFormat::Json => registry.with(lines.event_format(json::JsonFormatter)).try_init(),
        LogFormat::Text => {
            let color = globals.color.applies_to(&io::stderr());
            registry.with(lines.event_format(text::TextFormatter { color })).try_init()
        }
    };
}
