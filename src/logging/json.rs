//! Logs as JSON lines: `time`, `level` and `message`, then the fields of the event, such as `run`,
//! `queue` and `attempt`.

use std::fmt;

use redrive::Message;
use redrive_engine::{Clock, SystemClock};
use serde_json::{Map, Value};
use tracing::{Event, Subscriber};
use tracing_subscriber::{
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    registry::LookupSpan,
};

use super::fields::EventFields;
use crate::output::terminal_safe_json;

pub(super) struct JsonFormatter;

impl<S, N> FormatEvent<S, N> for JsonFormatter
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
        let mut line = Map::new();
        line.extend(
            fields.named.into_iter().map(|(name, value)| (name.to_owned(), sanitize(value))),
        );
        // These three keys win over fields of the same name.
        line.insert("time".to_owned(), format!("{:.6}", SystemClock.now()).into());
        line.insert("level".to_owned(), event.metadata().level().as_str().to_lowercase().into());
        line.insert("message".to_owned(), sanitize(fields.message.into()));
        writeln!(writer, "{}", terminal_safe_json(Value::Object(line).to_string()))
    }
}

fn sanitize(value: Value) -> Value {
    match value {
        Value::String(text) => Message::clean(&text).as_str().into(),
        value => value,
    }
}
