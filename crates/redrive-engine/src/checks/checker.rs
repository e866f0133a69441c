//! Checks the invariants of a whole store.
//!
//! The checker walks units and ledger side by side, page by page, so its memory use does not depend on the size
//! of the store. A store in use changes while it is read. A unit that looks wrong is therefore read again, and
//! reported only if it does not change between two reads and is still wrong.

use std::fmt;

use async_trait::async_trait;
use redrive_core::{RunId, RunState};
use redrive_store::{
    AttemptRecord, ItemRecord, PartitionRecord, Result, RunRecord, Selection, Store, UnitKind,
};

use crate::checks::{
    cause_checks::check_causes,
    ledger_reader::PAGE,
    pipeline_checks::check_pipeline_runs,
    plan_checks::check_plans,
    run_invariants::check_run,
    sample_checks::SampleOfRun,
    unit_checks::{CheckedUnit, check_units, missing_give_up},
};

/// The most findings in a report; further ones are only counted.
pub(crate) const MAX_FINDINGS: usize = 1_000;

/// How often a unit that looks wrong is read again. A unit that changes between all reads is in use, and is
/// not reported.
pub(crate) const MAX_REREADS: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Invariant {
    /// Attempt numbers in the ledger run 1..n without gaps, and the unit counts n attempts.
    LedgerNumbers,
    /// The retry count is the number of counted retries since the last reset.
    RetryCount,
    /// A unit in progress has a complete lease, and epochs only grow.
    Lease,
    /// The journal has the reason why a unit was given up.
    GiveUpRecorded,
    /// A claim that ended without an attempt has its release in the journal.
    ReleaseRecorded,
    /// An accepted partition names the run that was accepted last, and stays accepted.
    Authority,
    /// The raw data of an accepted partition is as it was sealed.
    RawData,
    /// The status follows from the last attempt in the ledger.
    StatusMatchesLedger,
    /// A retry is not scheduled earlier than the decision says.
    RetryTime,
    /// An unfinished unit is claimable, waits for a due time, or is held.
    WakeUp,
    /// The counts of a pipeline run are the sum of its samples, and those of a plan the sum of its units. A plan that is done
    /// has come to all of its units.
    Counts,
    /// The journal names the plan in one entry for each unit that the plan changed.
    PlanRecorded,
    /// The failures counted by cause and hour are those of the ledger.
    CauseCounts,
    /// The integrity check of the database passes.
    Integrity,
}

impl Invariant {
    /// The name in reports. Programs read it, so it does not change.
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
            Self::PlanRecorded => "plan-recorded",
            Self::CauseCounts => "cause-counts",
            Self::Integrity => "integrity",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub invariant: Invariant,
    /// The name of a unit or a cause, or `database`.
    pub unit: String,
    pub problem: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.unit, self.problem, self.invariant.name())
    }
}

/// How many records were checked, and what is wrong with them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    pub partitions: u64,
    pub runs: u64,
    pub items: u64,
    pub pipeline_runs: u64,
    pub samples: u64,
    pub plans: u64,
    pub attempts: u64,
    /// Runs read from the raw sink.
    pub raw_partitions: u64,
    /// At most 1,000.
    pub findings: Vec<Finding>,
    /// Findings beyond that maximum.
    pub more: u64,
}

impl Report {
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

/// Checks a whole store without writing to it.
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
    check_plans(store, &mut report).await?;
    check_causes(store, &mut report).await?;
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
        store.runs_page(&Selection::default(), RunId(after), PAGE.into()).await
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
