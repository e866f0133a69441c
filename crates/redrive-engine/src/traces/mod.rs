//! Attempts as OpenTelemetry spans (feature `otel`).
//!
//! Every row of the ledger is one span, linked to the span of the attempt before. Attempts of one unit
//! are made by several processes, days apart, so no span can be kept open, and none can be remembered:
//! ids are worked out from the unit and the number of the attempt. Whoever writes the next row knows
//! what the span before it was called, and a handler is told the name of its span before there is one.
//!
//! A span is made when its row is written, and waits in a queue of bounded length. A task sends what
//! is there by OTLP. A collector that is away, or slow, costs spans and nothing else: nobody waits for it.
//! [`TraceSettings`] are the environment variables that every program with OpenTelemetry reads.

mod attempt;
mod export;
mod ids;
mod settings;
mod span;

use std::sync::{Mutex, OnceLock, PoisonError};

use jiff::Timestamp;
use redrive_core::{AttemptNumber, Unit};

pub use self::{
    attempt::TracedAttempt,
    settings::{InvalidSetting, TraceSettings},
};
use self::{
    export::{Export, Spans},
    ids::Ids,
};
use crate::handlers::http::InvalidHttp;

/// The traces of this process, if it was asked for them.
static TRACES: OnceLock<Traces> = OnceLock::new();

struct Traces {
    ids: Ids,
    spans: Spans,
    /// Until it is finished.
    export: Mutex<Option<Export>>,
}

/// Sends a span for every attempt that this process ends from here on, and says whether it does: a second
/// call changes nothing. Needs a runtime.
///
/// `store_made_at` tells stores apart, so that run 7 of one is not run 7 of another: the time at which its
/// first migration was applied.
pub fn start(settings: TraceSettings, store_made_at: Timestamp) -> Result<bool, InvalidHttp> {
    if TRACES.get().is_some() {
        return Ok(false);
    }
    let (spans, export) = Export::start(settings)?;
    let ids = Ids::of_store(store_made_at);
    Ok(TRACES.set(Traces { ids, spans, export: Mutex::new(Some(export)) }).is_ok())
}

/// Sends what is left, within three seconds, and says what could not be sent.
pub async fn finish() {
    let Some(traces) = TRACES.get() else { return };
    let export = traces.export.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(export) = export {
        export.finish(&traces.spans).await;
    }
}

/// Takes an attempt that ended, if anybody wants to know of it.
pub(crate) fn ended(attempt: impl FnOnce() -> Option<TracedAttempt>) {
    let Some(traces) = TRACES.get() else { return };
    if let Some(attempt) = attempt() {
        traces.spans.add(span::span(&attempt, traces.ids));
    }
}

/// The span of an attempt, as W3C Trace Context names it for those who are called within it.
pub(crate) fn traceparent(unit: &Unit, attempt: AttemptNumber) -> Option<String> {
    Some(TRACES.get()?.ids.traceparent(unit, attempt))
}
