//! Compares a source file that was patched with what was read of it before (FIX-3).
//!
//! Every sample keeps the hash of its line. A run goes on by line number: after as many lines as it has read, whatever
//! they are now.

use std::{collections::HashSet, path::Path};

use redrive_core::{Failure, SampleId, SampleStatus};
use redrive_store::{
    MAX_PAGE, MAX_SAMPLE_BYTES, NewSample, PipelineRunRecord, SampleLine, SourcePosition, Store,
};
use sha2::{Digest, Sha256};
use tokio::{fs::File, io::AsyncReadExt};

use super::{
    SOURCE_CHANGED,
    jsonl_source::{CHUNK_BYTES, unreadable},
    sample_writer::parse_line,
    stage::final_failure,
};
use crate::uploads::hex;

/// How many lines that are not read yet are searched for the content of changed lines.
const MAX_AHEAD: usize = 1_000;

/// A line that is not what was read before.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangedLine {
    pub line: u64,
    /// Its sample; `None` if the line was blank, or the sample was pruned.
    pub sample: Option<SampleLine>,
    /// What the line is now: a sample, the reason why not, or `None` for a blank line.
    pub now: Option<Result<String, Failure>>,
}

/// What a patched source is, compared with what was read of it.
#[derive(Debug, Clone, PartialEq)]
pub struct PatchedSource {
    pub changed: Vec<ChangedLine>,
    /// Lines that an older version read, or whose samples were pruned.
    pub unknown: u64,
    /// The first changed line, if what changed lines had is on other lines now: lines were inserted or removed.
    pub shifted_from: Option<u64>,
    /// Where the run goes on.
    pub position: SourcePosition,
}

impl ChangedLine {
    /// The dead letter that can be read again, and its data.
    pub fn rereadable(&self) -> Option<(SampleId, &str)> {
        let sample = self.sample.as_ref().filter(|it| it.status == SampleStatus::Dlq)?;
        Some((sample.id, self.now.as_ref()?.as_ref().ok()?))
    }
}

impl PatchedSource {
    /// Compares the lines of a file with those that a run has read.
    pub async fn compare(
        path: &Path,
        run: &PipelineRunRecord,
        store: &dyn Store,
    ) -> Result<Self, PatchError> {
        let mut lines = FileLines::open(path).await?;
        let mut known = KnownLines { run, store, page: Vec::new(), after: 0 };
        let (mut changed, mut unknown, mut hashes) = (Vec::new(), 0, HashSet::new());
        for line in 1..=run.position.lines {
            let Some(now) = lines.next().await? else {
                let (path, found, read) = (path.display(), lines.lines, run.position.lines);
                let message = format!("{path} has {found} lines, but {read} were read before");
                return Err(final_failure(SOURCE_CHANGED, &message).into());
            };
            let before = known.find(line).await?;
            let (hash, now) = now.map_or((None, None), |now| (now.hash, Some(now.data)));
            match before {
                Some(SampleLine { hash: None, .. }) => unknown += 1,
                Some(before) if before.hash == hash => {}
                None if now.is_none() => {}
                None if run.pruned.total() > 0 => unknown += 1,
                sample => {
                    hashes.extend(hash);
                    changed.push(ChangedLine { line, sample, now });
                }
            }
        }
        let position = lines.position(run.position.done);
        let was = |it: &ChangedLine| it.sample.as_ref().and_then(|sample| sample.hash);
        let mut is_shifted = changed.iter().filter_map(was).any(|hash| hashes.contains(&hash));
        // After an insertion, what was the last line is not read yet.
        let last = changed.last().filter(|last| last.line == run.position.lines).and_then(was);
        for _ in 0..changed.len().min(MAX_AHEAD) {
            let Some(next) = lines.next().await? else { break };
            is_shifted |= last.is_some() && next.and_then(|next| next.hash) == last;
        }
        let shifted_from = changed.first().filter(|_| is_shifted).map(|first| first.line);
        Ok(Self { changed, unknown, shifted_from, position })
    }
}

/// Why a patched source cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    #[error("{}", .0.message())]
    Source(Failure),
    #[error(transparent)]
    Store(#[from] redrive_store::Error),
}

impl From<Failure> for PatchError {
    fn from(failure: Failure) -> Self {
        Self::Source(failure)
    }
}

/// The lines of a run that were read, in order.
struct KnownLines<'a> {
    run: &'a PipelineRunRecord,
    store: &'a dyn Store,
    page: Vec<SampleLine>,
    after: u64,
}

impl KnownLines<'_> {
    async fn find(&mut self, line: u64) -> redrive_store::Result<Option<SampleLine>> {
        let passed = self.page.last().is_none_or(|last| last.line < line);
        if passed && self.after < line {
            self.page = self.store.sample_lines(self.run.id, line - 1, MAX_PAGE).await?;
            self.after = self.page.last().map_or(u64::MAX, |last| last.line);
        }
        let found = self.page.binary_search_by_key(&line, |known| known.line).ok();
        Ok(found.and_then(|place| self.page.get(place).cloned()))
    }
}

/// The lines of a file, one at a time.
struct FileLines<'a> {
    path: &'a Path,
    file: File,
    buffer: Vec<u8>,
    /// The part of the buffer that is not split yet.
    unread: std::ops::Range<usize>,
    /// Of everything that was returned.
    hash: Sha256,
    bytes: u64,
    lines: u64,
}

impl<'a> FileLines<'a> {
    async fn open(path: &'a Path) -> Result<Self, Failure> {
        let file = File::open(path).await.map_err(|error| unreadable(path, &error))?;
        let (buffer, hash) = (vec![0; CHUNK_BYTES], Sha256::new());
        Ok(Self { path, file, buffer, unread: 0..0, hash, bytes: 0, lines: 0 })
    }

    /// The next line, which may be blank; `None` at the end.
    async fn next(&mut self) -> Result<Option<Option<NewSample>>, Failure> {
        let (mut line, mut bytes) = (Vec::new(), 0_u64);
        loop {
            if self.unread.is_empty() {
                let read = self.file.read(&mut self.buffer).await;
                self.unread = 0..read.map_err(|error| unreadable(self.path, &error))?;
            }
            let unread = self.buffer.get(self.unread.clone()).unwrap_or_default();
            let Some(part) = unread.split_inclusive(|byte| *byte == b'\n').next() else { break };
            self.hash.update(part);
            bytes += part.len() as u64;
            let room = (MAX_SAMPLE_BYTES + 1).saturating_sub(line.len());
            line.extend_from_slice(part.get(..room.min(part.len())).unwrap_or_default());
            self.unread.start += part.len();
            if part.ends_with(b"\n") {
                break;
            }
        }
        if bytes == 0 {
            return Ok(None);
        }
        self.bytes += bytes;
        self.lines += 1;
        Ok(Some(parse_line(self.lines, &line, bytes)))
    }

    /// Where a run that has read these lines goes on.
    fn position(&self, done: bool) -> SourcePosition {
        let check = Some(hex(self.hash.clone().finalize().as_slice()));
        SourcePosition { lines: self.lines, bytes: self.bytes, check, done }
    }
}
