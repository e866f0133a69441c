//! Cuts what a source holds into samples and stores them, together with how far it was read.
//!
//! No more than the read-ahead of the run is unfinished at a time: the feed waits, and with it whoever
//! reads the source. So a source of any size needs no memory but that of a batch.

use std::{sync::Arc, time::Duration};

use redrive_core::{Cause, Failure, PipelineStatus};
use redrive_store::{
    LeaseRef, MAX_SAMPLE_BYTES, NewSample, PipelineRunRecord, SourcePosition, Store,
};
use serde::de::IgnoredAny;
use sha2::{Digest, Sha256};

use super::{SourceEnd, stage::final_failure};
use crate::{Stop, uploads::hex, worker::finisher::Patience};
use redrive_retry::Clock;

/// The code of a line that is no JSON.
pub const BAD_LINE: &str = "bad_line";

/// The code of a sample that is larger than a sample may be.
pub const TOO_LARGE: &str = "too_large";

/// The code of a store that refuses samples.
const UNSTORABLE: &str = "unstorable";

/// What some programs write before the first line.
const BYTE_ORDER_MARK: &[u8] = &[0xef, 0xbb, 0xbf];

/// How much of a bad line is shown.
const SHOWN_CHARS: usize = 80;

/// The most samples that are added at a time.
const MAX_BATCH: usize = 1_000;

/// The most bytes of samples that are added at a time, unless one alone is larger.
const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;

/// How long to look away while too many samples are unfinished: at first, and at most.
const FIRST_WAIT: Duration = Duration::from_millis(5);
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Takes the lines of a source.
pub struct SampleWriter {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    lease: LeaseRef,
    stop: Stop,
    /// How the run stood when it was last seen.
    run: PipelineRunRecord,
    /// What was read up to the end of the last whole line.
    read: SourcePrefix,
    /// And with what has come of the next one.
    ahead: SourcePrefix,
    /// The beginning of the line whose end has not come yet, as far as a sample can be long.
    line: Vec<u8>,
    batch: Vec<NewSample>,
    /// What had been read at the end of each of them.
    prefixes: Vec<SourcePrefix>,
    batch_bytes: usize,
    /// Why nobody wants the rest.
    ended: Option<SourceEnd>,
}

/// The beginning of a source.
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

    /// Takes whole lines that were taken before, so that they are not taken again.
    pub fn skip(&mut self, lines: &[u8]) {
        self.read.push(lines);
        self.read.lines += lines.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.ahead = self.read.clone();
    }

    /// How many lines were read.
    pub fn lines(&self) -> u64 {
        self.read.lines
    }

    /// What was read looks like this.
    pub fn prefix_hash(&self) -> String {
        self.read.hash()
    }

    /// Takes bytes as they come. Says whether more is wanted.
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

    /// Stores what was taken so far; for a source that may say nothing for a while.
    pub async fn flush(&mut self) -> bool {
        if self.ended.is_none() && !self.batch.is_empty() {
            self.store_batch(false).await;
        }
        self.ended.is_none()
    }

    /// Stores the last line, and that there are no more.
    pub async fn finish(&mut self) -> SourceEnd {
        if self.ended.is_none() {
            if self.ahead.bytes > self.read.bytes {
                self.end_line();
            }
            self.store_batch(true).await;
        }
        self.end()
    }

    /// How the reading ended, if nobody wants the rest.
    pub fn end(&self) -> SourceEnd {
        self.ended.clone().unwrap_or(SourceEnd::Done)
    }

    /// A run never has more unfinished samples than its read-ahead.
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

    /// Adds the batch to the run, together with the position after it: all at once, or as much as there
    /// is room for.
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
            self.apply_answer(answer);
            redrive_store::failpoint!("engine.feed.stored");
            if self.ended.is_some() || last >= batch.len() {
                return;
            }
            first = last;
        }
    }

    fn apply_answer(&mut self, answer: redrive_store::Result<Option<PipelineRunRecord>>) {
        match answer {
            Ok(Some(run)) => self.run = run,
            Ok(None) if self.stop.is_stopped() => self.ended = Some(SourceEnd::Stopped),
            Ok(None) => self.ended = Some(SourceEnd::Unwanted),
            Err(error) => {
                let message = format!("what was read cannot be stored: {error}");
                let failure = Failure::named(UNSTORABLE, Cause::Handler, &message);
                self.ended = Some(SourceEnd::Failed(failure));
            }
        }
    }

    /// A store that does not answer is asked again, until the reader is told to stop. What it had
    /// taken without saying so, it does not take twice.
    async fn append(
        &mut self,
        batch: &[NewSample],
        position: &SourcePosition,
    ) -> redrive_store::Result<Option<PipelineRunRecord>> {
        let mut patience = Patience::new(&self.run.pipeline, "samples", batch.len());
        loop {
            let now = self.clock.now();
            match self.store.append_samples(self.lease, batch, position, now).await {
                Err(error) if error.is_transient() => tokio::select! {
                    biased;
                    () = self.stop.stopped() => return Ok(None),
                    () = patience.after(&error) => {}
                },
                answer => return answer,
            }
        }
    }

    /// Waits until the run has room for samples, and says for how many. Fewer than there are, if it does
    /// not come to more: what waits for a retry keeps its place for as long as that takes, and the others
    /// must not wait for it. None, if nobody wants them any more.
    async fn room_for(&mut self, samples: usize) -> Option<usize> {
        let (mut wait, mut before) = (FIRST_WAIT, 0);
        loop {
            let unfinished = self.run.progress.tally.pending();
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
            // A store that does not answer is asked again.
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

/// The sample that a line is, or why it is none. Blank lines are passed over.
fn parse_line(number: u64, line: &[u8], bytes: u64) -> Option<NewSample> {
    let line = if number == 1 { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line) } else { line };
    let data = match std::str::from_utf8(line) {
        _ if line.trim_ascii().is_empty() => return None,
        _ if bytes > MAX_SAMPLE_BYTES as u64 => {
            let message = format!("it has {bytes} bytes, {MAX_SAMPLE_BYTES} are allowed");
            Err((TOO_LARGE, message))
        }
        Err(_) => Err((BAD_LINE, "it is not UTF-8".to_owned())),
        // Without its end, which would only be in the way of saying what is wrong.
        Ok(text) => match serde_json::from_str::<IgnoredAny>(text.trim()) {
            Ok(_) => Ok(text.trim().to_owned()),
            Err(error) => {
                let beginning: String = text.trim().chars().take(SHOWN_CHARS).collect();
                Err((BAD_LINE, format!("it is not JSON: {error}; it begins with {beginning:?}")))
            }
        },
    };
    let why = |(code, what): (&'static str, String)| {
        final_failure(code, &format!("line {number} of the source is no sample: {what}"))
    };
    Some(NewSample { line: number, data: data.map_err(why) })
}
