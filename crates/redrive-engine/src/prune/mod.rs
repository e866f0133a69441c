//! Taking what is finished and old out of a store (OPS-8).
//!
//! First all of it is written to files, which are synced and get their names when they are whole. Then the
//! journal tells of them. Only then rows are removed, in batches, and only those that the files name and
//! that are still as they are there. So a death at any moment loses nothing: what is gone is in a file,
//! and what is left is found by whoever comes next.

mod file;
mod lines;

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    sync::Arc,
};

use jiff::{Timestamp, tz::TimeZone};
use redrive_core::{Epoch, RunId, SampleId};
use redrive_store::{
    ExportedUnit, LedgerPlace, Operator, PruneFilter, PruneRecord, Pruned, Store, UnitKind,
};
use serde::Deserialize;

use self::file::ExportFile;
pub use self::file::ExportedFile;
use crate::{partitions::raw::durable::DurableFolders, pipelines::page_size::PageSize};
use redrive_retry::Clock;

/// Units that one transaction removes.
const UNITS_PER_BATCH: usize = 1_000;

/// Attempts that are read at a time.
const ATTEMPTS_PER_PAGE: u32 = 1_000;

/// Why a prune stopped. What is in the store is in the store, what is not is in the files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PruneError {
    /// A file cannot be written or read back.
    #[error("cannot use {path}", path = .path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The store failed.
    #[error("cannot prune the store")]
    Store(#[from] redrive_store::Error),
    /// Two prunes began at the same microsecond.
    #[error("another prune has the name {0}; nothing was removed")]
    NameTaken(String),
}

/// How much may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Prunable {
    /// Runs.
    pub runs: u64,
    /// Samples.
    pub samples: u64,
}

/// What a prune did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PruneReport {
    /// Its name in the journal, and in the names of its files.
    pub name: String,
    /// What was written, each file whole.
    pub files: Vec<ExportedFile>,
    /// The runs that are gone, with their rows of the ledger.
    pub runs: Pruned,
    /// The samples that are gone, with theirs.
    pub samples: Pruned,
    /// What was written down and is still there: it changed meanwhile, or somebody else removed it.
    pub left: u64,
}

/// One prune.
pub struct Prune {
    store: Arc<dyn Store>,
    filter: PruneFilter,
    clock: Arc<dyn Clock>,
}

impl Prune {
    /// Of what a filter says.
    pub fn new(store: Arc<dyn Store>, filter: PruneFilter, clock: Arc<dyn Clock>) -> Self {
        Self { store, filter, clock }
    }

    /// How much may go. Changes nothing.
    pub async fn prunable(&self) -> Result<Prunable, PruneError> {
        let mut prunable = Prunable::default();
        if self.filter.takes_runs() {
            prunable.runs = self.store.count_prunable_runs(&self.filter).await?;
        }
        if self.filter.takes_samples() {
            prunable.samples = self.store.count_prunable_samples(&self.filter).await?;
        }
        Ok(prunable)
    }

    /// Writes what may go to files in a folder, which is made if there is none, and removes it.
    pub async fn run(&self, folder: &Path, by: &Operator) -> Result<PruneReport, PruneError> {
        let name = prune_name(by.at);
        let folders = DurableFolders::new(folder.to_owned());
        let made = folders.make(folder).and_then(|made| folders.sync(made));
        made.map_err(|source| PruneError::File { path: folder.to_owned(), source })?;
        let files = self.export(folder, &name).await?;
        if files.is_empty() {
            return Ok(PruneReport { name, ..PruneReport::default() });
        }
        let record = PruneRecord {
            name: name.clone(),
            filter: self.filter.clone(),
            by: by.clone(),
            files: files.iter().map(ExportedFile::journal_details).collect(),
        };
        if self.store.append_journal(&[record.start_entry()]).await? != [true] {
            return Err(PruneError::NameTaken(name));
        }
        redrive_store::failpoint!("engine.prune.told");
        let mut report = PruneReport { name, ..PruneReport::default() };
        for file in &files {
            let kind = match file.kind {
                "runs" => UnitKind::Run,
                "samples" => UnitKind::Sample,
                _ => continue,
            };
            let pruned = self.remove(&record.key(), kind, &file.path).await?;
            report.left += file.rows.saturating_sub(pruned.units);
            match kind {
                UnitKind::Run => report.runs = pruned,
                _ => report.samples = pruned,
            }
        }
        redrive_store::failpoint!("engine.prune.removed");
        let end = record.end_entry(report.runs, report.samples, self.clock.now());
        self.store.append_journal(&[end]).await?;
        Ok(PruneReport { files, ..report })
    }

    /// Writes every file that has something to hold, and names them when all are whole.
    async fn export(&self, folder: &Path, name: &str) -> Result<Vec<ExportedFile>, PruneError> {
        let [mut runs, mut samples, mut attempts] =
            ["runs", "samples", "attempts"].map(|kind| ExportFile::new(folder, kind, name));
        if self.filter.takes_runs() {
            self.export_runs(&mut runs, &mut attempts).await?;
        }
        if self.filter.takes_samples() {
            self.export_samples(&mut samples, &mut attempts).await?;
        }
        redrive_store::failpoint!("engine.prune.written");
        // The ledger first: who finds a file of runs finds their attempts.
        let files = [attempts, runs, samples].into_iter().filter_map(|file| file.end().transpose());
        files.collect()
    }

    async fn export_runs(
        &self,
        file: &mut ExportFile,
        attempts: &mut ExportFile,
    ) -> Result<(), PruneError> {
        let (mut after, mut size) = (RunId(0), PageSize::first());
        loop {
            let page = self.store.prunable_runs(&self.filter, after, size.rows()).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.id;
            let ids: Vec<i64> = page.iter().map(|run| run.id.0).collect();
            let before = file.bytes();
            for run in &page {
                file.add(&lines::run_line(run))?;
            }
            size.adjust(file.bytes() - before);
            self.export_attempts(UnitKind::Run, &ids, attempts).await?;
        }
    }

    async fn export_samples(
        &self,
        file: &mut ExportFile,
        attempts: &mut ExportFile,
    ) -> Result<(), PruneError> {
        let (mut after, mut size) = (SampleId(0), PageSize::first());
        loop {
            let page = self.store.prunable_samples(&self.filter, after, size.rows()).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.id;
            let ids: Vec<i64> = page.iter().map(|sample| sample.id.0).collect();
            let before = file.bytes();
            for sample in &page {
                file.add(&lines::sample_line(sample))?;
            }
            size.adjust(file.bytes() - before);
            self.export_attempts(UnitKind::Sample, &ids, attempts).await?;
        }
    }

    async fn export_attempts(
        &self,
        kind: UnitKind,
        ids: &[i64],
        file: &mut ExportFile,
    ) -> Result<(), PruneError> {
        let mut after = LedgerPlace::start();
        loop {
            let page = self.store.attempts_at(kind, ids, &after, ATTEMPTS_PER_PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = LedgerPlace::from(last);
            for attempt in &page {
                file.add(&lines::attempt_line(attempt))?;
            }
        }
    }

    /// Removes what a file names, as far as it is still as it is there.
    async fn remove(&self, key: &str, kind: UnitKind, path: &Path) -> Result<Pruned, PruneError> {
        let unreadable = |source| PruneError::File { path: path.to_owned(), source };
        let mut lines = BufReader::new(File::open(path).map_err(unreadable)?);
        let (mut line, mut sum) = (String::new(), Pruned::default());
        loop {
            let mut batch = Vec::new();
            while batch.len() < UNITS_PER_BATCH {
                line.clear();
                if lines.read_line(&mut line).map_err(unreadable)? == 0 {
                    break;
                }
                let named: UnitVersion = serde_json::from_str(&line).map_err(|error| {
                    unreadable(io::Error::new(io::ErrorKind::InvalidData, error))
                })?;
                batch.push(named.into());
            }
            if batch.is_empty() {
                return Ok(sum);
            }
            let pruned = match kind {
                UnitKind::Run => self.store.prune_runs(key, &self.filter, &batch).await?,
                _ => self.store.prune_samples(key, &self.filter, &batch).await?,
            };
            sum.units += pruned.units;
            sum.attempts += pruned.attempts;
            redrive_store::failpoint!("engine.prune.batch");
        }
    }
}

/// What of a line is needed to remove its unit.
#[derive(Debug, Deserialize)]
struct UnitVersion {
    id: i64,
    attempts: u32,
    lease_epoch: i64,
}

impl From<UnitVersion> for ExportedUnit {
    fn from(named: UnitVersion) -> Self {
        let UnitVersion { id, attempts, lease_epoch } = named;
        Self { id, attempts, epoch: Epoch(lease_epoch) }
    }
}

/// A name that sorts by time and can be part of a file's name.
fn prune_name(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H%M%S.%6fZ").to_string()
}
