//! The log of one call, as its handler sees it.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use redrive_core::AttemptNumber;
use redrive_store::{AttemptLog, LeaseRef, UnitRow, WorkerId};

use super::{clean::text_of, work_logs::WorkLogs};
use crate::handlers::{program::output::HeadAndTail, secrets::Secrets};

/// Takes what a handler logs about its call. Clones write to the same log.
///
/// A call that no worker makes keeps no log.
#[derive(Clone, Default)]
pub struct CallLog(Option<Arc<OpenLog>>);

impl CallLog {
    pub(super) fn of(log: OpenLog) -> Self {
        Self(Some(Arc::new(log)))
    }

    /// Adds a line. The log keeps the beginning and the end of what is added, without control characters.
    pub fn line(&self, text: &str) {
        self.push(format!("{text}\n").as_bytes());
    }

    pub(crate) fn push(&self, bytes: &[u8]) {
        if let Some(log) = &self.0 {
            log.push(bytes);
        }
    }

    /// Redacts what the handler knows and must not show.
    pub(crate) fn keep_secret(&self, secrets: &Arc<Secrets>) {
        if let Some(log) = &self.0 {
            log.content().secrets = Some(secrets.clone());
        }
    }
}

/// Logs say nothing about whether two calls are the same.
impl PartialEq for CallLog {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for CallLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallLog")
    }
}

/// The log of an attempt that runs.
pub(super) struct OpenLog {
    pub(super) unit: UnitRow,
    pub(super) attempt: AttemptNumber,
    pub(super) lease: LeaseRef,
    pub(super) logs: Arc<WorkLogs>,
    pub(super) content: Mutex<LogContent>,
}

#[derive(Default)]
pub(super) struct LogContent {
    bytes: Option<HeadAndTail>,
    secrets: Option<Arc<Secrets>>,
    /// The last write to the store: when, and how many bytes there were.
    written: Option<(Timestamp, u64)>,
}

impl OpenLog {
    fn push(self: &Arc<Self>, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let mut content = self.content();
        let begins = content.bytes.is_none();
        let (head, tail) = self.logs.limits.parts();
        content.bytes.get_or_insert_with(|| HeadAndTail::with_bounds(head, tail)).push(bytes);
        drop(content);
        if begins {
            self.logs.begin(self.lease, self.clone());
        }
    }

    fn content(&self) -> MutexGuard<'_, LogContent> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn last_write(&self) -> Option<Timestamp> {
        self.content().written.map(|(at, _)| at)
    }

    /// What the store does not have yet, if anything.
    pub(super) fn unwritten(&self, worker: &WorkerId, now: Timestamp) -> Option<AttemptLog> {
        let content = self.content();
        let bytes = content
            .bytes
            .as_ref()
            .filter(|bytes| bytes.total() > content.written.map_or(0, |(_, bytes)| bytes))?;
        let redact = |text: String| match &content.secrets {
            Some(secrets) => secrets.redact(text.into()).into_owned(),
            None => text,
        };
        Some(AttemptLog {
            unit: self.unit.clone(),
            attempt: self.attempt,
            epoch: self.lease.epoch,
            worker: worker.0.clone(),
            printed: bytes.total(),
            written_at: now,
            text: text_of(bytes, redact),
        })
    }

    pub(super) fn was_written(&self, log: &AttemptLog) {
        self.content().written = Some((log.written_at, log.printed));
    }
}
