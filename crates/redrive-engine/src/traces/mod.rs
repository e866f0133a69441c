//! Attempts as OpenTelemetry spans (feature `otel`).
//!
//! Every row of the ledger is one span, linked to the span of the attempt before. Several processes make
//! the attempts of one unit, days apart, so no span can be kept open and none can be remembered: ids are
//! computed from the unit and the number of the attempt. The process that writes the next row knows the
//! id of the span before it, and a handler gets the id of its span before the span exists.
//!
//! A span is made when its row is written, and waits in a queue of bounded length. A task sends the queue
//! by OTLP. A collector that is slow or down costs spans and nothing else: no attempt waits for it.
//! `TraceSettings` reads the environment variables that every OpenTelemetry SDK reads.

mod attempt;

#[cfg(feature = "otel")]
mod export;
#[cfg(feature = "otel")]
mod ids;
#[cfg(feature = "otel")]
mod settings;
#[cfg(feature = "otel")]
mod span;

#[cfg(feature = "otel")]
mod exporter;

use std::fmt;

use redrive_core::{AttemptNumber, Unit};

pub use self::attempt::TracedAttempt;
#[cfg(feature = "otel")]
pub use self::settings::{InvalidSetting, TraceSettings};
use crate::Call;

/// The name of the detail of a call that names the span of its attempt.
pub(crate) const TRACEPARENT: &str = "traceparent";

/// Where the attempts of an engine or an uploader are traced: nowhere by default, and nowhere without
/// the feature `otel`.
///
/// It is a value, not a global: engines with different `Traces` share nothing. Clones share one exporter.
#[derive(Clone, Default)]
pub struct Traces {
    #[cfg(feature = "otel")]
    exporter: Option<std::sync::Arc<exporter::Exporter>>,
}

#[cfg(feature = "otel")]
impl Traces {
    /// Starts to send a span for every attempt that is recorded. Needs a tokio runtime.
    ///
    /// `store_created_at` tells stores apart, so that run 7 of one store is not run 7 of another: use the
    /// time at which the first migration was applied.
    pub fn start(
        settings: TraceSettings,
        store_created_at: jiff::Timestamp,
    ) -> Result<Self, crate::InvalidHttp> {
        let exporter = exporter::Exporter::start(settings, store_created_at)?;
        Ok(Self { exporter: Some(exporter.into()) })
    }

    /// Sends the spans that wait, within three seconds, and logs how many could not be sent. Spans that
    /// are recorded later are dropped.
    pub async fn finish(&self) {
        if let Some(exporter) = &self.exporter {
            exporter.finish().await;
        }
    }

    /// Records an attempt whose end was written. Without an exporter, `attempt` is not called.
    pub(crate) fn record(&self, attempt: impl FnOnce() -> Option<TracedAttempt>) {
        if let Some(exporter) = &self.exporter
            && let Some(attempt) = attempt()
        {
            exporter.add(&attempt);
        }
    }

    /// The span of an attempt, as W3C Trace Context writes it.
    pub(crate) fn traceparent(&self, unit: &Unit, attempt: AttemptNumber) -> Option<String> {
        Some(self.exporter.as_ref()?.traceparent(unit, attempt))
    }
}

#[cfg(not(feature = "otel"))]
impl Traces {
    pub(crate) fn record(&self, _attempt: impl FnOnce() -> Option<TracedAttempt>) {}

    pub(crate) fn traceparent(&self, _unit: &Unit, _attempt: AttemptNumber) -> Option<String> {
        None
    }
}

impl Traces {
    /// Tells the handler of a call which span its attempt will have.
    pub(crate) fn add_traceparent(&self, call: &mut Call) {
        if let Some(parent) = self.traceparent(&call.unit, call.attempt) {
            call.details.insert(TRACEPARENT.to_owned(), parent.into());
        }
    }
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces").finish_non_exhaustive()
    }
}
