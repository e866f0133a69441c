//! The records of Redrive and the interface of a store.
//!
//! A store is a set of traits, one per aggregate: [`Partitions`], [`Runs`], [`Items`],
//! [`Pipelines`], [`Samples`], [`Ledger`], [`Journal`], [`Leases`], [`Pruning`], [`Plans`], [`Gates`],
//! [`Workers`]. The traits are object safe: the engine holds an `Arc<dyn Store>` and does not know the database. Methods take a
//! slice and return a vector in the same order.
//!
//! Three rules hold for every method that writes:
//!
//! - State, ledger and journal change in one transaction.
//! - A write that ends an attempt is compare-and-set on id, state and lease epoch, and returns
//!   [`Written::Applied`] or [`Written::Stale`] for each unit.
//! - Time is an argument. No store reads a clock for a value that it writes.
//!
//! The crate `redrive-conformance` has the tests that every store passes. The feature `failpoints`
//! lets tests kill the process between the steps of a write.

mod error;
mod failpoint;
mod json_text;
mod limits;
mod paging;
mod row_reader;
mod schema;

mod journal;
mod ledger;

mod leases;

mod runs;

mod run_finish;

mod operator_text;
mod operators;
mod queues;

mod groups;
mod items;

mod partitions;

mod selection;
mod selection_sql;

mod partition_finish;

mod partition_actions;

mod pipelines;
mod samples;

mod sample_finish;

mod pipeline_actions;

mod plans;

mod plan_settings;

mod plan_actions;
mod plan_counts;
mod plan_ends;
mod plan_units;

mod gate_claims;
mod gates;

mod gate_results;
mod gate_state;

mod attempt_counts;
mod attempt_logs;
mod causes;
mod figures;
mod pruning;
mod workers;

mod wakes;

mod store;

pub use attempt_counts::{
    AttemptCount, AttemptCountFilter, AttemptEnd, CountPeriod, MinuteCounts, PeriodCount,
    attempt_counts, start_of,
};
pub use attempt_logs::{AttemptLog, AttemptLogs, LoggedAttempt};
pub use causes::{
    CauseChange, CauseFilter, CauseHour, CauseKind, CauseMark, CauseMiscount, CauseRecord, Causes,
    InvalidCauseChange, MAX_CAUSES, cause_hours_pruned, cause_records, cause_returned, cause_unit,
    hour_of,
};
pub use error::{BoxError, Error, Result};
#[cfg(feature = "failpoints")]
pub use failpoint::pass_failpoint;
pub use figures::{Activity, ActivityCount, Figures, LagCount, TIME_BOUNDS_US};
pub use gate_claims::{ClaimGateWrites, ClaimGates, GatePass, GatePermit, LetThrough, StartWindow};
pub use gate_results::{EndedPermit, GateResultWrites, GateResults, PassedGates};
pub use gates::{
    DeclaredGate, GateDeclarations, GateOrder, GateOrdered, GatePlace, GateRecord, GateRule,
    GateRules, Gates, MAX_WAITING_BEHIND, PermitHolder, gate_name,
};
pub use groups::{ClaimedGroup, GroupClaim};
pub use items::{
    AddedItem, ItemAdmission, ItemAttempt, ItemContent, ItemCounts, ItemGroup, ItemMove, ItemPass,
    ItemRecord, Items, NewItem,
};
pub use journal::{Journal, JournalEntry, JournalFilter, JournalRecord, ReaderPlace};
pub use leases::{
    ExpiredLease, LeaseRef, LeaseRelease, Leased, Leases, NEVER_STARTED, WorkerId, Written,
};
pub use ledger::{AttemptOutcome, AttemptRecord, Ledger, LedgerPlace, UnitKind, UnitRow};
pub use limits::{
    MAX_BATCH, MAX_IDEMPOTENCY_KEY_BYTES, MAX_KEYED, MAX_NAME_BYTES, MAX_PAGE, MAX_PAYLOAD_BYTES,
    MAX_SAMPLE_BYTES,
};
pub use operator_text::{MAX_NOTE_CHARS, MAX_TICKET_CHARS, TextTooLong, operator_text};
pub use operators::{DataEdit, Operator, RunAction, RunChange};
pub use paging::{MAX_PAGE_BYTES, PageLimit, PageOrder, PageRow};
pub use partition_actions::{
    AuditContext, NamedPartition, PartitionAction, PartitionChange, PartitionSnapshot,
};
pub use partition_finish::{PartitionWrite, WorkWrite, partition_giveup};
pub use partitions::{
    BackfillShare, ClaimedPartition, Lane, PartitionCandidate, PartitionClaim, PartitionCount,
    PartitionFailure, PartitionFinish, PartitionRecord, PartitionSeries, PartitionVerdict,
    PartitionWorkRecord, Partitions, WorkKind, WorkRequest,
};
pub use pipeline_actions::{
    PipelineAction, PipelineChange, SampleChange, reopened, reprocess_entry, start_entry,
};
pub use pipelines::{
    ExpiringLease, NewPipelineRun, PipelineRunRecord, Pipelines, Served, SourceClaim, SourceFinish,
    SourcePosition, StageCount, StageStats, rules_to_json,
};
pub use plan_actions::{PlanAction, RunUndo};
pub use plan_counts::{PlanCountChange, PlanGroup, listed_counts, refused_counts};
pub use plan_ends::{ENDS_PAGE, FirstEnds};
pub use plan_units::{
    NewestEntry, PlanOutcome, PlanOutcomeCount, PlanUnit, PlanUnitCount, PlanUnitRecord,
    PlanUnitWrite, PlannedUnit, item_reset,
};
pub use plans::{
    NewPlan, PlanChange, PlanClaim, PlanEnd, PlanOrder, PlanRecord, Plans, StepPages,
    plan_unit_name,
};
pub use pruning::{
    ExportedUnit, PlanPrune, PruneFilter, PruneRecord, Pruned, PrunedPlan, PrunedSamples, Pruning,
};
pub use queues::{Backlog, PausedQueue, QueueAction, QueueCount, QueueStats};
pub use row_reader::{FromRow, ReadColumn, RowReader};
pub use run_finish::RunColumns;
pub use runs::{
    Categories, ClaimRequest, ClaimedRun, InvalidRun, NewRun, RunCompletion, RunFinish, RunRecord,
    Runs, SubmittedRun, Verdict, canonical_json,
};
pub use sample_finish::{
    OutcomesByRun, PipelineWrite, RunOutcomes, SOURCE_STAGE, SampleColumns, pipeline_entry,
    sample_unit, source_death_entry,
};
pub use samples::{
    ChosenSamples, ClaimedSample, DeadCause, NewSample, SampleClaim, SampleCompletion,
    SampleFinish, SampleLine, SampleRecord, SampleWritten, Samples, gate_key_at,
};
pub use schema::{
    AppliedMigration, Direction, Migration, MigrationStep, Migrator, SchemaStatus, latest_version,
    plan_steps, require_version,
};
pub use selection::{KeyPlace, Selection, SelectionTerm, StateFilter, TermValue};
pub use selection_sql::{SelectionSql, SqlDialect, StateSql};
pub use store::Store;
pub use wakes::Wakes;
pub use workers::{Presence, WorkerPlace, WorkerRecord, Workers, worker_kept_since};
