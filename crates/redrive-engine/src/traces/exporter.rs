//! Makes spans of attempts and hands them to the task that sends them.

use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use redrive_core::{AttemptNumber, Unit};

use super::{
    TraceSettings, TracedAttempt,
    export::{Export, SpanQueue},
    ids::TraceIds,
    span::span,
};
use crate::InvalidHttp;

pub(super) struct Exporter {
    ids: TraceIds,
    queue: SpanQueue,
    /// `None` once it is finished.
    export: Mutex<Option<Export>>,
}

impl Exporter {
    pub(super) fn start(
        settings: TraceSettings,
        store_created_at: Timestamp,
    ) -> Result<Self, InvalidHttp> {
        let (queue, export) = Export::start(settings)?;
        let ids = TraceIds::of_store(store_created_at);
        Ok(Self { ids, queue, export: Mutex::new(Some(export)) })
    }

    pub(super) async fn finish(&self) {
        let export = self.export.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(export) = export {
            export.finish(&self.queue).await;
        }
    }

    pub(super) fn add(&self, attempt: &TracedAttempt) {
        self.queue.add(span(attempt, self.ids));
    }

    pub(super) fn traceparent(&self, unit: &Unit, attempt: AttemptNumber) -> String {
        self.ids.traceparent(unit, attempt)
    }
}
