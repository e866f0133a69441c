//! The ledger: one append-only row per execution of any unit.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{AttemptNumber, Cause, Decision, Fingerprint, Unit};

use crate::Result;

/// The kinds of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UnitKind {
    /// A partition of extracted data.
    Partition,
    /// A run in a queue.
    Run,
    /// An item of an upload.
    Item,
    /// A sample at a stage of a pipeline.
    Sample,
}

impl UnitKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Partition, Self::Run, Self::Item, Self::Sample];

    /// The name under which the kind is stored.
    pub fn name(self) -> &'static str {
        match self {
            Self::Partition => "partition",
            Self::Run => "run",
            Self::Item => "item",
            Self::Sample => "sample",
        }
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
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

/// A unit as the ledger names it: by the row that holds its state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UnitRow {
    /// Its kind, which says which table.
    pub kind: UnitKind,
    /// The id of its row there.
    pub id: i64,
    /// The stage of a sample; empty for every other kind.
    pub stage: String,
}

impl UnitRow {
    /// A unit of a kind that has no stages.
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

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttemptOutcome {
    /// Well.
    Success,
    /// Badly, and it will be tried again.
    Retrying,
    /// Badly, and it will not be tried again.
    Failed,
    /// The handler chose to pass the unit over.
    Skipped,
}

impl AttemptOutcome {
    /// All outcomes.
    pub const ALL: [Self; 4] = [Self::Success, Self::Retrying, Self::Failed, Self::Skipped];

    /// The name under which the outcome is stored.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Retrying => "retrying",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }

    /// The outcome of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.name() == name)
    }
}

/// One execution of a unit, written when it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRecord {
    /// The unit.
    pub unit: UnitRow,
    /// What the stage's configuration was; samples alone.
    pub stage_config_hash: Option<String>,
    /// 1, 2, 3 … for this unit, without gaps.
    pub attempt: AttemptNumber,
    /// Whether it counts against `max_attempts`.
    pub counted: bool,
    /// The raw partition it wrote; partitions alone.
    pub run_id: Option<String>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// How it ended.
    pub outcome: AttemptOutcome,
    /// The class of its failure.
    pub class: Option<String>,
    /// The code of its failure.
    pub code: Option<String>,
    /// The message of its failure, cleaned and bounded.
    pub message: Option<String>,
    /// What groups it with failures like it.
    pub fingerprint: Option<String>,
    /// Who or what ended it.
    pub cause: Option<Cause>,
    /// The wait that was decided.
    pub delay: Option<Duration>,
    /// The worker that ran it.
    pub worker: String,
}

impl AttemptRecord {
    /// A success that says nothing more.
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
        }
    }

    /// The columns that describe a failure, from the failure.
    pub fn with_failure(mut self, failure: &redrive_core::Failure) -> Self {
        let code = failure.code().to_string();
        let message = failure.message().as_str();
        self.class = Some(failure.class().name().to_owned());
        self.fingerprint = Some(Fingerprint::of(&code, message).to_string());
        self.message = Some(message.to_owned());
        self.code = Some(code);
        self.cause = Some(failure.cause());
        self
    }

    /// The columns that say what was decided about a failure.
    pub fn with_decision(self, decision: &Decision) -> Self {
        match decision {
            Decision::RetryAt { delay, counted, .. } => Self {
                outcome: AttemptOutcome::Retrying,
                counted: *counted,
                delay: Some(*delay),
                ..self
            },
            Decision::GiveUp { .. } => Self { outcome: AttemptOutcome::Failed, ..self },
        }
    }
}

/// A place in the ledger of a kind: units by id, then stages, then attempts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LedgerPlace {
    /// The unit's row.
    pub id: i64,
    /// The stage of a sample; empty for every other kind.
    pub stage: String,
    /// The attempt.
    pub attempt: AttemptNumber,
}

impl LedgerPlace {
    /// Before every attempt.
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

/// The ledger of a store. Attempts of runs are written by the call that finishes them; this is for
/// kinds whose attempts end elsewhere, and for reading.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Adds attempts. A number that a unit has already is refused, and then nothing is written.
    async fn append_attempts(&self, attempts: &[AttemptRecord]) -> Result<()>;

    /// The attempts of one unit by number, after a number, a page at a time.
    async fn attempts_of(
        &self,
        unit: &UnitRow,
        after: AttemptNumber,
        limit: u32,
    ) -> Result<Vec<AttemptRecord>>;

    /// The attempts of every unit of a kind, in the order of [`LedgerPlace`], after a place, a page
    /// at a time.
    async fn ledger_page(
        &self,
        kind: UnitKind,
        after: &LedgerPlace,
        limit: u32,
    ) -> Result<Vec<AttemptRecord>>;
}
