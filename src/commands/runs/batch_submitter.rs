//! Runs on their way into the store, in batches, and what became of them.

use jiff::Timestamp;
use redrive_engine::{Clock, SystemClock};
use redrive_ops::read_run;
use redrive_store::{NewRun, Result, Store, SubmittedRun};
use serde::Serialize;

use crate::output::{TableColumn, TableRow};

/// The most lines that wait for the store.
const BATCH_LINES: usize = 1_000;

/// The most bytes of them: payloads may be large.
const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// How many refused lines the result names.
const MAX_REPORTED_REFUSALS: usize = 20;

/// How many refused lines are told beside the result, one by one.
const MAX_NOTED_REFUSALS: u64 = 1_000;

/// What became of the lines.
#[derive(Debug, Default, Serialize)]
pub(super) struct SubmissionCounts {
    /// How many are in the queue now.
    pub(super) accepted: u64,
    /// How many were there before.
    pub(super) duplicate: u64,
    /// How many were not taken.
    pub(super) refused: u64,
    /// The last line of which that is known.
    pub(super) through_line: u64,
    /// The first lines that were refused.
    pub(super) refusals: Vec<RefusedLine>,
}

/// A line that was not taken.
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

/// Lines become runs here. Bad ones do not stop the rest.
pub(super) struct BatchSubmitter<'a> {
    store: &'a dyn Store,
    queue: Option<&'a str>,
    note: &'a dyn Fn(&str),
    batch: Vec<(u64, std::result::Result<NewRun, String>)>,
    bytes: usize,
    /// When the first line of the batch came.
    started_at: Timestamp,
    counts: SubmissionCounts,
}

impl<'a> BatchSubmitter<'a> {
    /// Into a store; lines that name no queue go to `queue`, refused ones are told to `note`.
    pub(super) fn new(
        store: &'a dyn Store,
        queue: Option<&'a str>,
        note: &'a dyn Fn(&str),
    ) -> Self {
        Self {
            store,
            queue,
            note,
            batch: Vec::new(),
            bytes: 0,
            started_at: Timestamp::UNIX_EPOCH,
            counts: SubmissionCounts::default(),
        }
    }

    /// Takes a line. One without anything in it means nothing.
    pub(super) fn add(&mut self, number: u64, text: &[u8]) {
        if text.trim_ascii().is_empty() {
            return;
        }
        self.mark_batch_start();
        let run = read_run(text, self.queue, self.started_at);
        self.bytes += run.as_ref().map_or(0, |run| run.payload().len());
        self.batch.push((number, run));
    }

    /// Takes note of a line that cannot be one.
    pub(super) fn refuse(&mut self, number: u64, reason: String) {
        self.mark_batch_start();
        self.batch.push((number, Err(reason)));
    }

    fn mark_batch_start(&mut self) {
        if self.batch.is_empty() {
            self.started_at = SystemClock.now();
        }
    }

    /// Whether it is time to write.
    pub(super) fn is_full(&self) -> bool {
        self.batch.len() >= BATCH_LINES || self.bytes >= BATCH_BYTES
    }

    /// Writes what was taken: all of it, or nothing.
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
                Ok(None) => self.record_refusal(number, "the store said nothing of it".to_owned()),
                Err(reason) => self.record_refusal(number, reason),
            }
            self.counts.through_line = number;
        }
        Ok(())
    }

    /// What became of the lines so far.
    pub(super) fn counts(&self) -> &SubmissionCounts {
        &self.counts
    }

    /// What became of all lines.
    pub(super) fn into_counts(self) -> SubmissionCounts {
        self.counts
    }

    fn record_refusal(&mut self, line: u64, reason: String) {
        self.counts.refused += 1;
        if self.counts.refused <= MAX_NOTED_REFUSALS {
            (self.note)(&format!("line {line}: {reason}"));
        } else if self.counts.refused == MAX_NOTED_REFUSALS + 1 {
            (self.note)("more lines were refused; they are counted and no longer listed");
        }
        if self.counts.refusals.len() < MAX_REPORTED_REFUSALS {
            self.counts.refusals.push(RefusedLine { line, reason });
        }
    }
}

/// Why a run is refused whose key has other content already.
pub(super) fn conflict(id: i64) -> String {
    format!("run {id} has other content under the same idempotency_key")
}
