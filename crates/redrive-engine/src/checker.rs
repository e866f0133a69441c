//! What must always be true of a store, checked.
//!
//! The checker walks units and ledger side by side, page by page, so a store of any size costs the
//! same memory. A store in use changes while it is read; so whatever looks wrong is read once more
//! by itself, and is reported only if it stands still and is still wrong.

use std::fmt;

use redrive_core::{RunId, RunState};
use redrive_store::{
    AttemptRecord, JournalFilter, Result, RunFilter, RunRecord, Store, UnitKind, UnitRow,
};

use crate::{
    item_checks::check_items,
    ledger_reader::{LedgerReader, PAGE, all_attempts},
    partition_checks::check_partitions,
    run_invariants::judge_run,
};

/// Findings kept; the rest are counted.
pub(crate) const MAX_FINDINGS: usize = 1_000;

/// How often a unit that looks wrong is read again before it counts as moving, and so as alive.
pub(crate) const REREADS: usize = 3;

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
    HandBackRecorded,
    /// A good partition names the run that was accepted last, and stays good.
    Authority,
    /// A good partition stands on raw data that is as it was sealed.
    RawData,
    /// Ledger and status tell the same story.
    Story,
    /// A retry comes no sooner than was decided.
    RetryTime,
    /// Whatever is unfinished has a future wake-up or a holder.
    WakeUp,
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
            Self::HandBackRecorded => "hand-back-recorded",
            Self::Authority => "authority",
            Self::RawData => "raw-data",
            Self::Story => "story",
            Self::RetryTime => "retry-time",
            Self::WakeUp => "wake-up",
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
    check_partitions(store, &mut report).await?;
    check_runs(store, &mut report).await?;
    check_items(store, &mut report).await?;
    Ok(report)
}

async fn check_runs(store: &dyn Store, report: &mut Report) -> Result<()> {
    let mut ledger = LedgerReader::new(store, UnitKind::Run);
    let (everything, mut after) = (RunFilter::default(), RunId(0));
    loop {
        let page = store.runs_page(&everything, after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = last.id;
        for run in &page {
            let (orphans, attempts) = ledger.attempts_up_to(run.id.0).await?;
            report.runs += 1;
            report.attempts += (attempts.len() + orphans.len()) as u64;
            report.add(orphans.iter().map(orphan).collect());
            let findings = judge(store, run, &attempts).await?;
            if findings.is_empty() {
                continue;
            }
            // Past the limit they are only counted: looking twice at a million would take for ever.
            let full = report.findings.len() >= MAX_FINDINGS;
            report.add(if full { findings } else { judge_again(store, run.id).await? });
        }
    }
    // What is left belongs to runs submitted since; only a run that does not exist is an orphan.
    for attempt in ledger.rest(MAX_FINDINGS).await? {
        report.attempts += 1;
        if store.runs_by_id(&[RunId(attempt.unit.id)]).await?.is_empty() {
            report.add(vec![orphan(&attempt)]);
        }
    }
    Ok(())
}

fn orphan(attempt: &AttemptRecord) -> Finding {
    Finding {
        invariant: Invariant::LedgerNumbers,
        unit: attempt.unit.to_string(),
        problem: format!("attempt {} belongs to no run", attempt.attempt),
    }
}

async fn judge(
    store: &dyn Store,
    run: &RunRecord,
    attempts: &[AttemptRecord],
) -> Result<Vec<Finding>> {
    let mut findings = judge_run(run, attempts);
    if RunState::of(run.status, run.next_retry_at.is_some()) == RunState::GivenUp {
        let filter = JournalFilter {
            unit: Some(format!("run:{}", run.id)),
            action: Some("run.giveup".to_owned()),
        };
        if store.journal_page(&filter, 0, 1).await?.is_empty() {
            findings.push(Finding {
                invariant: Invariant::GiveUpRecorded,
                unit: format!("run:{}", run.id),
                problem: "it was given up, and the journal does not say why".to_owned(),
            });
        }
    }
    Ok(findings)
}

/// Reads a run and its attempts until the run stands still between two looks.
async fn judge_again(store: &dyn Store, id: RunId) -> Result<Vec<Finding>> {
    for _ in 0..REREADS {
        let Some(before) = store.runs_by_id(&[id]).await?.pop() else { return Ok(Vec::new()) };
        let attempts = all_attempts(store, UnitRow::new(UnitKind::Run, id.0)).await?;
        let findings = judge(store, &before, &attempts).await?;
        let after = store.runs_by_id(&[id]).await?.pop();
        if findings.is_empty() || after.as_ref() == Some(&before) {
            return Ok(findings);
        }
    }
    Ok(Vec::new())
}
