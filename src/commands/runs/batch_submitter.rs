//! Submits lines as runs, in batches, and counts the outcomes.

use jiff::Timestamp;
use redrive_engine::{Clock, SystemClock};
use redrive_ops::{Declarations, read_run};
use redrive_store::{NewRun, Result, Store, SubmittedRun};
use serde::Serialize;

use crate::output::{TableColumn, TableRow};

/// The most lines of a batch.
const BATCH_LINES: usize = 1_000;

/// The most payload bytes of a batch.
const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// The most refused lines in the result.
const MAX_REPORTED_REFUSALS: usize = 20;

/// The most refused lines that are printed one by one.
const MAX_NOTED_REFUSALS: u64 = 1_000;

#[derive(Debug, Default, Serialize)]
pub(super) struct SubmissionCounts {
    pub(super) accepted: u64,
    /// Runs that the queue had before.
    pub(super) duplicate: u64,
    pub(super) refused: u64,
    /// The last line whose outcome is known.
    pub(super) through_line: u64,
    /// The first refused lines.
    pub(super) refusals: Vec<RefusedLine>,
}

#[derive(Debug, Serialize)]
pub(super) struct RefusedLine {
    line: u64,
    reason: String,
}

impl TableRow for SubmissionCounts {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("accepted"),
        TableColumn::text("duplicate"),
        TableColumn::text("refused"),
        TableColumn::text("through line"),
    ];

    fn cells(&self) -> Vec<String> {
        let counts = [self.accepted, self.duplicate, self.refused, self.through_line];
        counts.map(|count| count.to_string()).into()
    }
}

impl TableRow for RefusedLine {
    const COLUMNS: &'static [TableColumn] =
        &[TableColumn::number("line"), TableColumn::text("reason")];

    fn cells(&self) -> Vec<String> {
        vec![self.line.to_string(), self.reason.clone()]
    }
}

/// An invalid line does not stop the others.
pub(super) struct BatchSubmitter<'a> {
    store: &'a dyn Store,
    queue: Option<&'a str>,
    declared: Option<&'a Declarations>,
    note: &'a dyn Fn(&str),
    batch: Vec<(u64, std::result::Result<NewRun, String>)>,
    bytes: usize,
    /// When the first line of the batch was added.
    started_at: Timestamp,
    counts: SubmissionCounts,
}

impl<'a> BatchSubmitter<'a> {
    /// Lines without a queue go to `queue`. Queues that are not in `declared` are refused. `note` prints refused lines.
    pub(super) fn new(
        store: &'a dyn Store,
        queue: Option<&'a str>,
        declared: Option<&'a Declarations>,
        note: &'a dyn Fn(&str),
    ) -> Self {
        Self {
            store,
            queue,
            declared,
            note,
            batch: Vec::new(),
            bytes: 0,
            started_at: Timestamp::UNIX_EPOCH,
            counts: SubmissionCounts::default(),
        }
    }

    /// Adds a line. Blank lines are ignored.
    pub(super) fn add(&mut self, number: u64, text: &[u8]) {
        if text.trim_ascii().is_empty() {
            return;
        }
        self.mark_batch_start();
        let run = read_run(text, self.queue, self.declared, self.started_at);
        let run = run.map_err(|refusal| refusal.to_string());
        self.bytes += run.as_ref().map_or(0, |run| run.payload().len());
        self.batch.push((number, run));
    }

    /// Adds a line that cannot be read.
    pub(super) fn refuse(&mut self, number: u64, reason: String) {
        self.mark_batch_start();
        self.batch.push((number, Err(reason)));
    }

    fn mark_batch_start(&mut self) {
        if self.batch.is_empty() {
            self.started_at = SystemClock.now();
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.batch.len() >= BATCH_LINES || self.bytes >= BATCH_BYTES
    }

    /// Submits the batch in one transaction.
    pub(super) async fn write(&mut self) -> Result<()> {
        let runs: Vec<NewRun> =
            self.batch.iter().filter_map(|(_, run)| run.as_ref().ok().cloned()).collect();
        let submitted = match runs.as_slice() {
            [] => Vec::new(),
            runs => self.store.submit_runs(runs, self.started_at).await?,
        };
        self.bytes = 0;
        let mut submitted = submitted.into_iter();
        for (number, run) in std::mem::take(&mut self.batch) {
            match run.map(|_| submitted.next()) {
                Ok(Some(SubmittedRun::Accepted(_))) => self.counts.accepted += 1,
                Ok(Some(SubmittedRun::Duplicate(_))) => self.counts.duplicate += 1,
                Ok(Some(SubmittedRun::Conflict(id))) => {
                    self.record_refusal(number, conflict(id.0));
                }
                Ok(None) => self.record_refusal(number, "the store returned no outcome".to_owned()),
                Err(reason) => self.record_refusal(number, reason),
            }
            self.counts.through_line = number;
        }
        Ok(())
    }

    pub(super) fn counts(&self) -> &SubmissionCounts {
        &self.counts
    }

    pub(super) fn into_counts(self) -> SubmissionCounts {
        self.counts
    }

    fn record_refusal(&mut self, line: u64, reason: String) {
        self.counts.refused += 1;
        if self.counts.refused <= MAX_NOTED_REFUSALS {
            (self.note)(&format!("line {line}: {reason}"));
        } else if self.counts.refused == MAX_NOTED_REFUSALS + 1 {
            (self.note)("further refused lines are counted, but not listed");
        }
        if self.counts.refusals.len() < MAX_REPORTED_REFUSALS {
            self.counts.refusals.push(RefusedLine { line, reason });
        }
    }
}

/// The reason to refuse a run whose idempotency key exists with other content.
pub(super) fn conflict(id: i64) -> String {
    format!("run {id} has the same idempotency_key and other content")
}
