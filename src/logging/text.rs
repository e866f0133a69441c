//! Logs as text: time, level, message, then `name=value` for each field.

use std::fmt;

use redrive::Message;
use redrive_engine::{Clock, SystemClock};
use serde_json::Value;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::{
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    registry::LookupSpan,
};

use super::fields::EventFields;

pub(super) struct TextFormatter {
    pub(super) color: bool,
}

impl<S, N> FormatEvent<S, N> for TextFormatter
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let fields = EventFields::of(event);
        let level = *event.metadata().level();
        let (color, plain) = if self.color { (color_of(level), "\x1b[0m") } else { ("", "") };
        let message = one_line(&fields.message);
        write!(writer, "{:.6} {color}{level:>5}{plain} {message}", SystemClock.now())?;
        for (name, value) in &fields.named {
            write!(writer, " {name}={}", quote(value))?;
        }
        writeln!(writer)
    }
}

fn color_of(level: Level) -> &'static str {
    match level {
        Level::ERROR => "\x1b[31m",
        Level::WARN => "\x1b[33m",
        Level::INFO => "\x1b[32m",
        Level::DEBUG => "\x1b[34m",
        Level::TRACE => "\x1b[35m",
    }
}

/// Quotes text that could be mistaken for the next field.
fn quote(value: &Value) -> String {
    let Value::String(text) = value else { return value.to_string() };
    let text = one_line(text);
    let plain = !text.is_empty() && !text.contains([' ', '"', '=']);
    if plain { text } else { format!("\"{}\"", text.replace('"', "\\\"")) }
}

/// Removes control characters and escapes line breaks.
pub(crate) fn one_line(text: &str) -> String {
    Message::clean(text).as_str().replace('\n', "\\n").replace('\t', "\\t")
}
