//! Spans of attempts, for a collector that the environment names (`docs/tracing.md`).

use std::env;

use redrive::{
    Clock, SystemClock, migrator,
    traces::{TraceSettings, Traces},
};

use crate::{
    context::{ChosenStore, Context},
    exit::{Exit, Failure},
};

/// Starts to send spans of what this process does with a store, if the environment names a collector.
/// [`Context::traces`] has them from here on.
pub(crate) async fn start(store: &ChosenStore, context: &Context) -> Result<(), Failure> {
    let variable = |name: &str| env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let cannot = |error: &dyn std::error::Error| {
        Failure::new(Exit::Error, format!("cannot send spans: {error}"))
            .help("docs/tracing.md has the variables; OTEL_SDK_DISABLED=true turns them off")
    };
    let settings = TraceSettings::read(variable).map_err(|error| cannot(&error))?;
    let Some(settings) = settings else { return Ok(()) };
    let migrator = migrator(&store.url).map_err(|error| store.failure(error))?;
    let schema = migrator.status().await.map_err(|error| store.failure(error))?;
    // A store in memory is as old as this process.
    let made_at = schema.applied.first().map_or_else(|| SystemClock.now(), |it| it.applied_at);
    // The rest of a URL may hold what is not for a log.
    let collector = settings.url.authority().map(ToString::to_string).unwrap_or_default();
    let traces = Traces::start(settings, made_at).map_err(|error| cannot(&error))?;
    context.trace_to(traces);
    tracing::info!(collector, "sending spans");
    Ok(())
}
