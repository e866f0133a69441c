//! Splits a source into samples and stores them together with the position in the source.
//!
//! A run never has more unfinished samples than its read-ahead: the writer waits, and so does the source. A source of
//! any size therefore needs the memory of one batch.

use std::{sync::Arc, time::Duration};

use redrive_core::{Cause, Failure, PipelineStatus};
use redrive_store::{
    LeaseRef, MAX_SAMPLE_BYTES, NewSample, PipelineRunRecord, SOURCE_STAGE, SourcePosition, Store,
};
use serde::de::IgnoredAny;
use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::xxh3_64;

use super::{SourceEnd, stage::final_failure};
use crate::{Stop, uploads::hex, worker::store_retry::StoreRetry};
use redrive_retry::Clock;

/// The code of a line that is not JSON.
pub const BAD_LINE: &str = "bad_line";

/// The code of a line that is longer than [`MAX_SAMPLE_BYTES`].
pub const TOO_LARGE: &str = "too_large";

/// The code when the store refuses samples.
const UNSTORABLE: &str = "unstorable";

/// Some programs write this before the first line.
const BYTE_ORDER_MARK: &[u8] = &[0xef, 0xbb, 0xbf];

/// How much of a bad line the error message shows.
const SHOWN_CHARS: usize = 80;

/// The most samples in one write.
const MAX_BATCH: usize = 1_000;

/// The most bytes in one write, unless a single sample is larger.
const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;

/// The first and the longest interval of polling the run while too many samples are unfinished.
const FIRST_WAIT: Duration = Duration::from_millis(5);
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Stores the lines of a source as samples.
pub struct SampleWriter {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    lease: LeaseRef,
    stop: Stop,
    /// The run as last read.
    run: PipelineRunRecord,
    /// The source up to the end of the last complete line.
    read: SourcePrefix,
    /// `read`, and the bytes of the incomplete line after it.
    ahead: SourcePrefix,
    /// The incomplete line, cut off one byte after the longest sample.
    line: Vec<u8>,
    batch: Vec<NewSample>,
    /// The source up to the end of each sample of the batch.
    prefixes: Vec<SourcePrefix>,
    batch_bytes: usize,
    /// Set once the rest of the source is not needed.
    ended: Option<SourceEnd>,
}

/// The start of a source, up to some byte.
#[derive(Clone, Default)]
struct SourcePrefix {
    lines: u64,
    bytes: u64,
    hash: Sha256,
}

impl SourcePrefix {
    fn push(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    fn hash(&self) -> String {
        hex(self.hash.clone().finalize().as_slice())
    }

    fn position(&self, done: bool) -> SourcePosition {
        let (lines, bytes) = (self.lines, self.bytes);
        SourcePosition { lines, bytes, check: Some(self.hash()), done }
    }
}

impl SampleWriter {
    pub(super) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        lease: LeaseRef,
        run: PipelineRunRecord,
        stop: Stop,
    ) -> Self {
        Self {
            store,
            clock,
            lease,
            stop,
            run,
            read: SourcePrefix::default(),
            ahead: SourcePrefix::default(),
            line: Vec::new(),
            batch: Vec::new(),
            prefixes: Vec::new(),
            batch_bytes: 0,
            ended: None,
        }
    }

    /// Skips complete lines that were stored before.
    pub fn skip(&mut self, lines: &[u8]) {
        self.read.push(lines);
        self.read.lines += lines.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.ahead = self.read.clone();
    }

    /// Complete lines so far, including skipped ones.
    pub fn lines(&self) -> u64 {
        self.read.lines
    }

    /// The SHA-256 of all complete lines so far.
    pub fn prefix_hash(&self) -> String {
        self.read.hash()
    }

    /// Adds bytes, in chunks of any size. Returns whether the source should go on; if not, [`end`](Self::end)
    /// says why.
    pub async fn push(&mut self, mut bytes: &[u8]) -> bool {
        while self.ended.is_none()
            && let Some(newline) = bytes.iter().position(|byte| *byte == b'\n')
        {
            let (line, rest) = bytes.split_at(newline + 1);
            self.push_bytes(line);
            self.end_line();
            bytes = rest;
            if self.batch.len() >= self.max_batch() || self.batch_bytes >= MAX_BATCH_BYTES {
                self.store_batch(false).await;
            }
        }
        if self.ended.is_none() {
            self.push_bytes(bytes);
        }
        self.ended.is_none()
    }

    /// Stores all complete lines, for a source that may pause. Returns the same as [`push`](Self::push).
    pub async fn flush(&mut self) -> bool {
        if self.ended.is_none() && !self.batch.is_empty() {
            self.store_batch(false).await;
        }
        self.ended.is_none()
    }

    /// Stores the last line and marks the source as read to its end.
    pub async fn finish(&mut self) -> SourceEnd {
        if self.ended.is_none() {
            if self.ahead.bytes > self.read.bytes {
                self.end_line();
            }
            self.store_batch(true).await;
        }
        self.end()
    }

    /// Why the rest of the source is not needed; `Done` if it is.
    pub fn end(&self) -> SourceEnd {
        self.ended.clone().unwrap_or(SourceEnd::Done)
    }

    /// A larger batch than the read-ahead would never fit.
    fn max_batch(&self) -> usize {
        usize::try_from(self.run.read_ahead).unwrap_or(MAX_BATCH).min(MAX_BATCH)
    }

    fn push_bytes(&mut self, part: &[u8]) {
        self.ahead.push(part);
        let room = (MAX_SAMPLE_BYTES + 1).saturating_sub(self.line.len());
        self.line.extend_from_slice(part.get(..room.min(part.len())).unwrap_or_default());
    }

    fn end_line(&mut self) {
        self.ahead.lines += 1;
        let bytes = self.ahead.bytes - self.read.bytes;
        self.read = self.ahead.clone();
        if let Some(sample) = parse_line(self.read.lines, &self.line, bytes) {
            self.batch_bytes += self.line.len();
            self.batch.push(sample);
            self.prefixes.push(self.read.clone());
        }
        self.line.clear();
        self.line.shrink_to(MAX_BATCH_BYTES);
    }

    /// Stores the batch together with the position after it: all at once, or in parts if the run has no room
    /// for all of it.
    async fn store_batch(&mut self, done: bool) {
        let (batch, prefixes) =
            (std::mem::take(&mut self.batch), std::mem::take(&mut self.prefixes));
        self.batch_bytes = 0;
        let mut first = 0;
        loop {
            let left = batch.get(first..).unwrap_or_default();
            let room = self.room_for(left.len()).await;
            let now = room.and_then(|room| left.get(..room));
            let last = first + now.map_or(0, <[_]>::len);
            let position = match prefixes.get(last.saturating_sub(1)) {
                Some(end) if last < batch.len() => end.position(false),
                _ => self.read.position(done),
            };
            let answer = match now {
                Some(samples) => self.append(samples, &position).await,
                None => Ok(None),
            };
            if let (Ok(Some(_)), Some(samples)) = (&answer, now) {
                self.log_dead(samples);
            }
            self.apply_answer(answer);
            redrive_store::failpoint!("engine.feed.stored");
            if self.ended.is_some() || last >= batch.len() {
                return;
            }
            first = last;
        }
    }

    /// Logs lines that are no samples, as dead letters of a stage are logged.
    fn log_dead(&self, samples: &[NewSample]) {
        for sample in samples {
            let Err(failure) = &sample.data else { continue };
            tracing::warn!(
                pipeline = self.run.pipeline,
                pipeline_run = self.run.id.0,
                stage = SOURCE_STAGE,
                line = sample.line,
                code = failure.code().to_string(),
                error = failure.message().as_str(),
                "dead letter: the line is not a sample"
            );
        }
    }

    fn apply_answer(&mut self, answer: redrive_store::Result<Option<PipelineRunRecord>>) {
        match answer {
            Ok(Some(run)) => self.run = run,
            Ok(None) if self.stop.is_stopped() => self.ended = Some(SourceEnd::Stopped),
            Ok(None) => self.ended = Some(SourceEnd::Unwanted),
            Err(error) => {
                let message = format!("cannot store samples of the source: {error}");
                let failure = Failure::named(UNSTORABLE, Cause::Handler, &message);
                self.ended = Some(SourceEnd::Failed(failure));
            }
        }
    }

    /// Retries while the store is unavailable, until stopped. The store ignores samples that an earlier,
    /// unanswered write has stored.
    async fn append(
        &mut self,
        batch: &[NewSample],
        position: &SourcePosition,
    ) -> redrive_store::Result<Option<PipelineRunRecord>> {
        let mut retry = StoreRetry::new(&self.run.pipeline, "samples", batch.len());
        loop {
            let now = self.clock.now();
            match self.store.append_samples(self.lease, batch, position, now).await {
                Err(error) if error.is_transient() => tokio::select! {
                    biased;
                    () = self.stop.stopped() => return Ok(None),
                    () = retry.wait_after(&error) => {}
                },
                answer => return answer,
            }
        }
    }

    /// Waits until the run has room for samples, and returns for how many. Returns fewer than requested if the
    /// room does not grow: samples that wait for a retry keep their room for long, and must not delay the
    /// others. `None` if the samples are not needed any more.
    async fn room_for(&mut self, samples: usize) -> Option<usize> {
        let (mut wait, mut before) = (FIRST_WAIT, 0);
        loop {
            let unfinished = self.run.progress.counts.pending();
            let room = u64::from(self.run.read_ahead).saturating_sub(unfinished);
            let room = usize::try_from(room).unwrap_or(usize::MAX).min(samples);
            if room == samples || (room > 0 && room == before) {
                return Some(room);
            }
            before = room;
            tokio::select! {
                biased;
                () = self.stop.stopped() => return None,
                () = tokio::time::sleep(wait) => {}
            }
            wait = (wait * 2).min(MAX_WAIT);
            // After an error, the next round reads the run again.
            let runs = self.store.pipeline_runs_by_id(&[self.run.id]).await;
            if let Some(run) = runs.ok().and_then(|mut runs| runs.pop()) {
                self.run = run;
            }
            if self.run.progress.status != PipelineStatus::Running {
                return None;
            }
        }
    }
}

/// What a line was, to tell later whether it has changed. Spaces around it do not matter.
fn line_hash(line: &[u8]) -> i64 {
    xxh3_64(line.trim_ascii()).cast_signed()
}

/// The sample of a line, or a failure if the line is not a valid sample. `None` for a blank line.
pub(super) fn parse_line(number: u64, line: &[u8], bytes: u64) -> Option<NewSample> {
    let line = if number == 1 { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line) } else { line };
    let data = match std::str::from_utf8(line) {
        _ if line.trim_ascii().is_empty() => return None,
        _ if bytes > MAX_SAMPLE_BYTES as u64 => {
            let message =
                format!("the line has {bytes} bytes, at most {MAX_SAMPLE_BYTES} are allowed");
            Err((TOO_LARGE, message))
        }
        Err(_) => Err((BAD_LINE, "the line is not UTF-8".to_owned())),
        // Trimmed, so that the parser does not report positions in the line ending.
        Ok(text) => match serde_json::from_str::<IgnoredAny>(text.trim()) {
            Ok(_) => Ok(text.trim().to_owned()),
            Err(error) => {
                let start: String = text.trim().chars().take(SHOWN_CHARS).collect();
                Err((BAD_LINE, format!("the line is not JSON: {error}; it starts with {start:?}")))
            }
        },
    };
    let why = |(code, what): (&'static str, String)| {
        final_failure(code, &format!("line {number} of the source is not a valid sample: {what}"))
    };
    Some(NewSample { line: number, data: data.map_err(why), hash: Some(line_hash(line)) })
}
