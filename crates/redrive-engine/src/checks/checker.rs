//! What must always be true of a store, checked.
//!
//! The checker walks units and ledger side by side, page by page, so a store of any size costs the
//! same memory. A store in use changes while it is read; so whatever looks wrong is read once more
//! by itself, and is reported only if it stands still and is still wrong.

use std::fmt;

use async_trait::async_trait;
use redrive_core::{RunId, RunState};
use redrive_store::{
    AttemptRecord, ItemRecord, PartitionRecord, Result, RunFilter, RunRecord, Store, UnitKind,
};

use crate::checks::{
    ledger_reader::PAGE,
    pipeline_checks::check_pipeline_runs,
    run_invariants::check_run,
    sample_checks::SampleOfRun,
    unit_checks::{CheckedUnit, check_units, missing_give_up},
};

/// Findings kept; the rest are counted.
pub(crate) const MAX_FINDINGS: usize = 1_000;

/// How often a unit that looks wrong is read again before it counts as moving, and so as alive.
pub(crate) const MAX_REREADS: usize = 3;

/// Something that must always be true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Invariant {
    /// Ledger numbers run 1..n without gaps, and the unit knows n.
    LedgerNumbers,
    /// The retry count is the number of counted retries since the last reset.
    RetryCount,
    /// Who works on a unit holds a lease, and epochs only grow.
    Lease,
    /// A unit that was given up has its reason in the journal.
    GiveUpRecorded,
    /// A claim that ended without an attempt has its hand-back in the journal.
    ReleaseRecorded,
    /// A good partition names the run that was accepted last, and stays good.
    Authority,
    /// A good partition stands on raw data that is as it was sealed.
    RawData,
    /// Ledger and status tell the same story.
    StatusMatchesLedger,
    /// A retry comes no sooner than was decided.
    RetryTime,
    /// Whatever is unfinished has a future wake-up or a holder.
    WakeUp,
    /// The counts of a parent are the sum of its children.
    Counts,
    /// The database finds its own structure sound.
    Integrity,
}

impl Invariant {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::LedgerNumbers => "ledger-numbers",
            Self::RetryCount => "retry-count",
            Self::Lease => "lease",
            Self::GiveUpRecorded => "give-up-recorded",
            Self::ReleaseRecorded => "hand-back-recorded",
            Self::Authority => "authority",
            Self::RawData => "raw-data",
            Self::StatusMatchesLedger => "story",
            Self::RetryTime => "retry-time",
            Self::WakeUp => "wake-up",
            Self::Counts => "counts",
            Self::Integrity => "integrity",
        }
    }
}

/// A broken invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which one.
    pub invariant: Invariant,
    /// Where: a unit, or `database`.
    pub unit: String,
    /// What is wrong.
    pub problem: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.unit, self.problem, self.invariant.name())
    }
}

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Partitions that were looked at.
    pub partitions: u64,
    /// Runs that were looked at.
    pub runs: u64,
    /// Items that were looked at.
    pub items: u64,
    /// Runs of pipelines that were looked at.
    pub pipeline_runs: u64,
    /// Samples that were looked at.
    pub samples: u64,
    /// Attempts that were looked at.
    pub attempts: u64,
    /// Raw partitions that were read.
    pub raw_partitions: u64,
    /// What is wrong, up to a limit.
    pub findings: Vec<Finding>,
    /// Findings beyond that limit.
    pub more: u64,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    pub(crate) fn add(&mut self, findings: Vec<Finding>) {
        for finding in findings {
            if self.findings.len() < MAX_FINDINGS {
                self.findings.push(finding);
            } else {
                self.more += 1;
            }
        }
    }
}

/// Checks a whole store. Reads only.
pub async fn check(store: &dyn Store) -> Result<Report> {
    let mut report = Report::default();
    let integrity = store.integrity_problems().await?.into_iter().map(|problem| Finding {
        invariant: Invariant::Integrity,
        unit: "database".to_owned(),
        problem,
    });
    report.add(integrity.collect());
    check_units::<PartitionRecord>(store, &mut report).await?;
    check_units::<RunRecord>(store, &mut report).await?;
    check_units::<ItemRecord>(store, &mut report).await?;
    check_units::<SampleOfRun>(store, &mut report).await?;
    check_pipeline_runs(store, &mut report).await?;
    Ok(report)
}

#[async_trait]
impl CheckedUnit for RunRecord {
    const KIND: UnitKind = UnitKind::Run;

    fn id(&self) -> i64 {
        self.id.0
    }

    fn count(report: &mut Report) -> &mut u64 {
        &mut report.runs
    }

    async fn page(store: &dyn Store, after: i64) -> Result<Vec<Self>> {
        store.runs_page(&RunFilter::default(), RunId(after), PAGE).await
    }

    async fn find(store: &dyn Store, id: i64) -> Result<Option<Self>> {
        Ok(store.runs_by_id(&[RunId(id)]).await?.pop())
    }

    async fn check(&self, store: &dyn Store, attempts: &[AttemptRecord]) -> Result<Vec<Finding>> {
        let mut findings = check_run(self, attempts);
        if RunState::of(self.status, self.next_retry_at.is_some()) == RunState::GivenUp {
            let unit = format!("run:{}", self.id);
            findings.extend(missing_give_up(store, unit, "run.giveup").await?);
        }
        Ok(findings)
    }
}
