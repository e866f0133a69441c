//! Removes old, finished rows from a store after exporting them to files (OPS-8).
//!
//! 1. All rows are written to files. A file is synced, and gets its final name when it is complete.
//! 2. The journal gets an entry that names the files.
//! 3. Rows are removed in batches: only rows that are in a file and unchanged since.
//!
//! A crash at any point loses nothing: every removed row is in a file, and the next prune finds the remaining rows.
//!
//! - `lines`: the rows as lines of a file
//! - `file`: writes a file and gives it its final name

mod lines;

mod file;

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    sync::Arc,
};

use jiff::{Timestamp, tz::TimeZone};
use redrive_core::{Epoch, PlanId, RunId, SampleId};
use redrive_store::{
    ExportedUnit, LedgerPlace, Operator, PlanPrune, PruneFilter, PruneRecord, Pruned, PrunedPlan,
    Store, UnitKind,
};
use serde::{Deserialize, de::DeserializeOwned};

use self::file::ExportFile;
pub use self::file::ExportedFile;
use crate::{partitions::raw::durable::DurableFolders, pipelines::page_size::PageSize};
use redrive_retry::Clock;

/// Units removed in one transaction.
const UNITS_PER_BATCH: usize = 1_000;

const ATTEMPTS_PER_PAGE: u32 = 1_000;

const PLANS_PER_PAGE: u32 = 100;

/// Units of a plan that are exported or removed at a time.
const PLAN_UNITS_PER_PAGE: u32 = 1_000;

/// Why a prune stopped. Every row is still in the store, or in a file, or in both.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PruneError {
    #[error("cannot write or read {path}", path = .path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot prune the store")]
    Store(#[from] redrive_store::Error),
    /// Two prunes started in the same microsecond.
    #[error("another prune already has the name {0}; nothing was removed, run the prune again")]
    NameTaken(String),
}

/// How many units a prune would remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Prunable {
    pub runs: u64,
    pub samples: u64,
    pub plans: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PruneReport {
    /// The name in the journal and in the names of the files.
    pub name: String,
    pub files: Vec<ExportedFile>,
    /// Removed runs, and their ledger rows.
    pub runs: Pruned,
    /// Removed samples, and their ledger rows.
    pub samples: Pruned,
    /// Removed plans, with their units.
    pub plans: u64,
    /// Units and plans that were exported but not removed: they changed meanwhile, or another prune removed them.
    pub left: u64,
}

pub struct Prune {
    store: Arc<dyn Store>,
    filter: PruneFilter,
    clock: Arc<dyn Clock>,
}

impl Prune {
    pub fn new(store: Arc<dyn Store>, filter: PruneFilter, clock: Arc<dyn Clock>) -> Self {
        Self { store, filter, clock }
    }

    /// Counts the units that a prune would remove.
    pub async fn prunable(&self) -> Result<Prunable, PruneError> {
        let mut prunable = Prunable::default();
        if self.filter.takes_runs() {
            prunable.runs = self.store.count_prunable_runs(&self.filter).await?;
        }
        if self.filter.takes_samples() {
            prunable.samples = self.store.count_prunable_samples(&self.filter).await?;
        }
        if self.filter.takes_plans() {
            prunable.plans = self.store.count_prunable_plans(&self.filter).await?;
        }
        Ok(prunable)
    }

    /// Exports all units that match the filter to files in a folder, and removes them from the store. Creates the
    /// folder if needed.
    pub async fn run(&self, folder: &Path, by: &Operator) -> Result<PruneReport, PruneError> {
        let name = prune_name(by.at);
        let folders = DurableFolders::new(folder.to_owned());
        let created = folders.make(folder).and_then(|made| folders.sync(made));
        created.map_err(|source| PruneError::File { path: folder.to_owned(), source })?;
        let files = self.export(folder, &name).await?;
        // Counts by hour, for charts: the ledger and the export have every attempt.
        if self.filter.queue.is_none() && self.filter.pipeline.is_none() {
            self.store.prune_cause_hours(self.filter.before, by).await?;
            redrive_store::failpoint!("engine.prune.counts");
        }
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
                "plans" => {
                    report.plans = self.remove_plans(&record.key(), by, &file.path).await?;
                    report.left += file.rows.saturating_sub(report.plans);
                    continue;
                }
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
        let end = record.end_entry(report.runs, report.samples, report.plans, self.clock.now());
        self.store.append_journal(&[end]).await?;
        Ok(PruneReport { files, ..report })
    }

    /// Writes the files, and gives them their final names when all are complete. Files without rows are not
    /// created.
    async fn export(&self, folder: &Path, name: &str) -> Result<Vec<ExportedFile>, PruneError> {
        let [mut runs, mut samples, mut attempts, mut plans, mut plan_units] =
            ["runs", "samples", "attempts", "plans", "plan_units"]
                .map(|kind| ExportFile::new(folder, kind, name));
        if self.filter.takes_runs() {
            self.export_runs(&mut runs, &mut attempts).await?;
        }
        if self.filter.takes_samples() {
            self.export_samples(&mut samples, &mut attempts).await?;
        }
        if self.filter.takes_plans() {
            self.export_plans(&mut plans, &mut plan_units).await?;
        }
        redrive_store::failpoint!("engine.prune.written");
        // The ledger first: a named file of runs or samples then always has its attempts beside it. So have plans their units.
        let files = [attempts, plan_units, runs, samples, plans];
        let files = files.into_iter().filter_map(|file| file.finish().transpose());
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
            for run in page {
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
            for sample in page {
                file.add(&lines::sample_line(sample))?;
            }
            size.adjust(file.bytes() - before);
            self.export_attempts(UnitKind::Sample, &ids, attempts).await?;
        }
    }

    async fn export_plans(
        &self,
        file: &mut ExportFile,
        units: &mut ExportFile,
    ) -> Result<(), PruneError> {
        let mut after = PlanId(0);
        loop {
            let page = self.store.prunable_plans(&self.filter, after, PLANS_PER_PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.id;
            for plan in &page {
                file.add(&lines::plan_line(plan))?;
                let mut after = 0;
                loop {
                    let page =
                        self.store.plan_units_page(plan.id, None, after, PLAN_UNITS_PER_PAGE);
                    let page = page.await?;
                    let Some(last) = page.last() else { break };
                    after = last.unit_id;
                    for unit in &page {
                        units.add(&lines::plan_unit_line(plan.id, unit))?;
                    }
                }
            }
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

    /// Removes the plans of a file that did not change since they were exported, each in pages of its units.
    async fn remove_plans(&self, key: &str, by: &Operator, path: &Path) -> Result<u64, PruneError> {
        let (mut exported, mut gone) = (ExportReader::open(path)?, 0);
        while let [plan] = &exported.batch::<PlanVersion>(1)?[..] {
            let (id, epoch) = (PlanId(plan.id), Epoch(plan.lease_epoch));
            let plan = PlanPrune { id, epoch, by: by.clone(), limit: PLAN_UNITS_PER_PAGE };
            loop {
                let pruned = self.store.prune_plan(key, &self.filter, &plan).await?;
                redrive_store::failpoint!("engine.prune.plan");
                match pruned {
                    PrunedPlan::Units(_) => continue,
                    PrunedPlan::Gone => gone += 1,
                    PrunedPlan::Left => {}
                }
                break;
            }
        }
        Ok(gone)
    }

    /// Removes the units of a file that did not change since they were exported.
    async fn remove(&self, key: &str, kind: UnitKind, path: &Path) -> Result<Pruned, PruneError> {
        let (mut exported, mut sum) = (ExportReader::open(path)?, Pruned::default());
        loop {
            let batch: Vec<UnitVersion> = exported.batch(UNITS_PER_BATCH)?;
            let batch: Vec<ExportedUnit> = batch.into_iter().map(ExportedUnit::from).collect();
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

/// Reads the lines of an export file again.
struct ExportReader<'a> {
    path: &'a Path,
    lines: BufReader<File>,
    line: String,
}

impl<'a> ExportReader<'a> {
    fn open(path: &'a Path) -> Result<Self, PruneError> {
        let failed = |source| PruneError::File { path: path.to_owned(), source };
        let lines = BufReader::new(File::open(path).map_err(failed)?);
        Ok(Self { path, lines, line: String::new() })
    }

    /// The next lines; none at the end.
    fn batch<T: DeserializeOwned>(&mut self, most: usize) -> Result<Vec<T>, PruneError> {
        let failed = |source| PruneError::File { path: self.path.to_owned(), source };
        let mut batch = Vec::new();
        while batch.len() < most {
            self.line.clear();
            if self.lines.read_line(&mut self.line).map_err(failed)? == 0 {
                break;
            }
            let line = serde_json::from_str(&self.line);
            batch.push(line.map_err(|error| failed(error.into()))?);
        }
        Ok(batch)
    }
}

#[derive(Debug, Deserialize)]
struct PlanVersion {
    id: i64,
    lease_epoch: i64,
}

/// The columns of a line that identify a unit and show whether it changed.
#[derive(Debug, Deserialize)]
struct UnitVersion {
    id: i64,
    attempts: u32,
    lease_epoch: i64,
}

impl From<UnitVersion> for ExportedUnit {
    fn from(version: UnitVersion) -> Self {
        let UnitVersion { id, attempts, lease_epoch } = version;
        Self { id, attempts, epoch: Epoch(lease_epoch) }
    }
}

/// A name that sorts by time and is valid in file names.
fn prune_name(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H%M%S.%6fZ").to_string()
}
