//! Sends spans of attempts to the collector that the environment names (`docs/tracing.md`).

use std::env;

use redrive::{
    Clock, SystemClock, migrator,
    traces::{TraceSettings, Traces},
};

use crate::{
    context::{ChosenStore, Context},
    exit::{CommandError, Exit},
};

/// Starts the export of spans, if the environment configures a collector.
pub(crate) async fn start(store: &ChosenStore, context: &Context) -> Result<(), CommandError> {
    let variable = |name: &str| env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let span_error = |error: &dyn std::error::Error| {
        CommandError::new(Exit::Error, format!("cannot send spans: {error}"))
            .help("docs/tracing.md lists the variables; OTEL_SDK_DISABLED=true turns tracing off")
    };
    let settings = TraceSettings::read(variable).map_err(|error| span_error(&error))?;
    let Some(settings) = settings else { return Ok(()) };
    let migrator = migrator(&store.url).map_err(|error| store.store_error(error))?;
    let schema = migrator.status().await.map_err(|error| store.store_error(error))?;
    // A store in memory is created with this process.
    let created_at = schema.applied.first().map_or_else(|| SystemClock.now(), |it| it.applied_at);
    // The rest of the URL may contain secrets.
    let collector = settings.url.authority().map(ToString::to_string).unwrap_or_default();
    let traces = Traces::start(settings, created_at).map_err(|error| span_error(&error))?;
    context.trace_to(traces);
    tracing::info!(collector, "sending spans");
    Ok(())
}
