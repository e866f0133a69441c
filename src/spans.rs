//! Spans of attempts, for a collector that the environment names (`docs/tracing.md`).

use std::env;

use redrive::{Clock, SystemClock, migrator, traces, traces::TraceSettings};

use crate::{
    context::ChosenStore,
    exit::{CommandError, Exit},
};

/// Sends spans of what this process does with a store, if the environment asks for it.
pub(crate) async fn start(store: &ChosenStore) -> Result<(), CommandError> {
    let variable = |name: &str| env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let cannot = |error: &dyn std::error::Error| {
        CommandError::new(Exit::Error, format!("cannot send spans: {error}"))
            .help("docs/tracing.md has the variables; OTEL_SDK_DISABLED=true turns them off")
    };
    let settings = TraceSettings::read(variable).map_err(|error| cannot(&error))?;
    let Some(settings) = settings else { return Ok(()) };
    let migrator = migrator(&store.url).map_err(|error| store.store_error(error))?;
    let schema = migrator.status().await.map_err(|error| store.store_error(error))?;
    // A store in memory is as old as this process.
    let made_at = schema.applied.first().map_or_else(|| SystemClock.now(), |it| it.applied_at);
    // The rest of a URL may hold what is not for a log.
    let collector = settings.url.authority().map(ToString::to_string).unwrap_or_default();
    if traces::start(settings, made_at).map_err(|error| cannot(&error))? {
        tracing::info!(collector, "sending spans");
    }
    Ok(())
}
