//! The ledger: one append-only row per attempt at any unit.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{AttemptNumber, Cause, Decision, Failure, SampleId, StoredFailure, Unit};
use serde::Serialize;

use crate::{FromRow, Result, RowReader, SOURCE_STAGE};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UnitKind {
    Partition,
    Run,
    Item,
    Sample,
}

impl UnitKind {
    pub const ALL: [Self; 4] = [Self::Partition, Self::Run, Self::Item, Self::Sample];

    pub fn name(self) -> &'static str {
        match self {
            Self::Partition => "partition",
            Self::Run => "run",
            Self::Item => "item",
            Self::Sample => "sample",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// What units of the kind belong to.
    pub fn place(self) -> &'static str {
        match self {
            Self::Partition => "source",
            Self::Run => "queue",
            Self::Item => "upload",
            Self::Sample => "stage",
        }
    }
}

impl From<&Unit> for UnitKind {
    fn from(unit: &Unit) -> Self {
        match unit {
            Unit::Partition(_) => Self::Partition,
            Unit::Run(_) => Self::Run,
            Unit::Item(_) => Self::Item,
            Unit::Sample { .. } => Self::Sample,
        }
    }
}

/// A unit as the ledger names it: by the row with its state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UnitRow {
    /// Selects the table.
    pub kind: UnitKind,
    pub id: i64,
    /// The stage of a sample; empty for every other kind.
    pub stage: String,
}

impl UnitRow {
    pub fn new(kind: UnitKind, id: i64) -> Self {
        Self { kind, id, stage: String::new() }
    }
}

impl fmt::Display for UnitRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.name(), self.id)?;
        if self.stage.is_empty() { Ok(()) } else { write!(f, "/{}", self.stage) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttemptOutcome {
    Success,
    Retrying,
    Failed,
    /// The handler skipped the unit.
    Skipped,
}

impl AttemptOutcome {
    pub const ALL: [Self; 4] = [Self::Success, Self::Retrying, Self::Failed, Self::Skipped];

    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Retrying => "retrying",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.name() == name)
    }
}

impl From<&Decision> for AttemptOutcome {
    fn from(decision: &Decision) -> Self {
        match decision {
            Decision::RetryAt { .. } => Self::Retrying,
            Decision::GiveUp { .. } => Self::Failed,
        }
    }
}

/// One attempt at a unit, written when the attempt ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRecord {
    pub unit: UnitRow,
    /// The hash of the stage's configuration; samples only.
    pub stage_config_hash: Option<String>,
    /// 1, 2, 3 … per unit, without gaps.
    pub attempt: AttemptNumber,
    pub counted: bool,
    /// The raw partition that the attempt wrote; partitions only.
    pub run_id: Option<String>,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub outcome: AttemptOutcome,
    pub class: Option<String>,
    pub code: Option<String>,
    /// Cleaned and bounded.
    pub message: Option<String>,
    /// Groups similar failures.
    pub fingerprint: Option<String>,
    pub cause: Option<Cause>,
    /// The wait that was decided.
    pub delay: Option<Duration>,
    pub worker: String,
    /// The wait that the server asked for.
    pub asked: Option<Duration>,
}

impl FromRow for AttemptRecord {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        let kind = row.named("kind", UnitKind::from_name)?;
        Ok(Self {
            unit: UnitRow { kind, id: row.get()?, stage: row.get()? },
            stage_config_hash: row.get()?,
            attempt: AttemptNumber(row.count("attempt")?),
            counted: row.get()?,
            run_id: row.get()?,
            started_at: row.timestamp()?,
            ended_at: row.timestamp()?,
            outcome: row.named("outcome", AttemptOutcome::from_name)?,
            class: row.get()?,
            code: row.get()?,
            message: row.get()?,
            fingerprint: row.get()?,
            cause: row.optional_named("cause", Cause::from_name)?,
            delay: row.optional_count("delay_us")?.map(Duration::from_micros),
            worker: row.get()?,
            asked: row.optional_count("asked_us")?.map(Duration::from_micros),
        })
    }
}

impl AttemptRecord {
    /// For the rules of a policy; `None` if the attempt did not fail.
    pub fn failure(&self) -> Option<StoredFailure<'_>> {
        Some(StoredFailure {
            class: self.class.as_deref()?,
            code: self.code.as_deref()?,
            origin: self.cause,
            fingerprint: self.fingerprint.as_deref()?,
        })
    }

    /// The delay as it is stored.
    pub fn delay_us(&self) -> Option<i64> {
        self.delay.map(stored_micros)
    }

    /// The wait that the server asked for, as it is stored.
    pub fn asked_us(&self) -> Option<i64> {
        self.asked.map(stored_micros)
    }

    pub fn success(
        unit: UnitRow,
        attempt: AttemptNumber,
        started_at: Timestamp,
        ended_at: Timestamp,
        worker: &str,
    ) -> Self {
        Self {
            unit,
            stage_config_hash: None,
            attempt,
            counted: true,
            run_id: None,
            started_at,
            ended_at,
            outcome: AttemptOutcome::Success,
            class: None,
            code: None,
            message: None,
            fingerprint: None,
            cause: None,
            delay: None,
            worker: worker.to_owned(),
            asked: None,
        }
    }

    /// Fills the columns that describe a failure.
    pub fn with_failure(mut self, failure: &Failure) -> Self {
        self.class = Some(failure.class().name().to_owned());
        self.fingerprint = Some(failure.fingerprint().to_string());
        self.message = Some(failure.message().to_string());
        self.code = Some(failure.code().to_string());
        self.cause = Some(failure.cause());
        self.asked = failure.class().hint();
        self
    }

    /// A line of a source that is not a sample, for the counts of causes. It is no attempt and not in the ledger.
    pub fn dead_line(id: SampleId, failure: &Failure, at: Timestamp, actor: &str) -> Self {
        let unit =
            UnitRow { stage: SOURCE_STAGE.to_owned(), ..UnitRow::new(UnitKind::Sample, id.0) };
        Self::success(unit, AttemptNumber(0), at, at, actor).with_failure(failure)
    }

    /// Fills the columns that describe the decision about a failure.
    pub fn with_decision(self, decision: &Decision) -> Self {
        let row = Self { outcome: decision.into(), ..self };
        match decision {
            Decision::RetryAt { delay, counted, .. } => {
                Self { counted: *counted, delay: Some(*delay), ..row }
            }
            Decision::GiveUp { .. } => row,
        }
    }
}

fn stored_micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// A position in the ledger of a kind: by unit id, then stage, then attempt.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LedgerPlace {
    pub id: i64,
    /// The stage of a sample; empty for every other kind.
    pub stage: String,
    pub attempt: AttemptNumber,
}

impl LedgerPlace {
    pub fn start() -> Self {
        Self { id: i64::MIN, stage: String::new(), attempt: AttemptNumber(0) }
    }
}

impl From<&AttemptRecord> for LedgerPlace {
    fn from(attempt: &AttemptRecord) -> Self {
        let UnitRow { id, stage, .. } = attempt.unit.clone();
        Self { id, stage, attempt: attempt.attempt }
    }
}

/// Reads the ledger, and appends attempts of kinds that no finish method writes. The finish methods
/// write the attempts of runs, partitions and samples.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Appends attempts. If a unit already has an attempt with the same number, nothing is written.
    async fn append_attempts(&self, attempts: &[AttemptRecord]) -> Result<()>;

    /// A page of the attempts of one unit with numbers above `after`, by number.
    async fn attempts_of(
        &self,
        unit: &UnitRow,
        after: AttemptNumber,
        limit: u32,
    ) -> Result<Vec<AttemptRecord>>;

    /// A page of the attempts at all units of a kind after a position, in the order of
    /// [`LedgerPlace`].
    async fn ledger_page(
        &self,
        kind: UnitKind,
        after: &LedgerPlace,
        limit: u32,
    ) -> Result<Vec<AttemptRecord>>;
}
