//! The decisions of Redrive, as pure functions.
//!
//! A *unit* fails, the failure is *classified*, a *policy* turns the failure into a *decision*, and
//! a state machine checks that the transition is legal. This crate has no clock, no randomness, no
//! I/O and no async. Time, units and random draws are arguments, so a worker, the lease reaper, the
//! retry daemon, a dry run and a printed schedule cannot disagree.
//!
//! Read the modules in the order below; [`decide`] is the centre.

mod duration;
mod logical_date;
mod number;
mod partition_run_id;
mod unit;

mod crash_report;
mod fingerprint;
mod message;

mod as_failure;
mod failure;

mod classify;
mod retry_after;

mod policy;
mod policy_rules;
mod retriable;

mod backoff;
mod jitter;
mod jitter_text;

mod decide;
mod preset;
mod schedule;

pub mod gate_state;
pub mod item_state;
pub mod partition_state;
pub mod pipeline_state;
pub mod plan_state;
pub mod run_state;
pub mod sample_state;

mod pipeline_progress;
mod pipeline_rules;

mod rate;

mod plan_pace;
mod plan_settings;

mod gate;
mod gate_settings;

mod retry_forecast;
mod terminal_mark;

#[cfg(feature = "serde")]
mod serialize;

pub use as_failure::AsFailure;
pub use classify::{class_of_exit, class_of_http, class_of_name, named};
pub use crash_report::headline;
pub use decide::{Decision, GiveUpReason, History, decide};
pub use duration::{HumanDuration, InvalidDuration, MAX_DURATION};
pub use failure::{Cause, Class, Code, Failure, InvalidCode};
pub use fingerprint::{Fingerprint, InvalidFingerprint, NO_RAW_PARTITION};
pub use gate::{
    GateChange, GateOutcome, GateResult, GateState, HeldPermits, RecentAttempts, START_HORIZON,
};
pub use gate_settings::{GateSettings, GateTrip, InvalidGateSettings, MAX_TRIP_ATTEMPTS};
pub use gate_state::{GateEvent, GateStatus};
pub use item_state::{ItemEvent, ItemStatus};
pub use jitter::{Jitter, JitterKey, JitterSeed};
pub use jitter_text::InvalidJitter;
pub use logical_date::{DateRange, LogicalDate};
pub use message::{MAX_MESSAGE_BYTES, Message, STDERR_MARK, summary};
pub use number::{
    AttemptNumber, Epoch, ItemId, PartitionId, PipelineRunId, PlanId, RunId, SampleId,
};
pub use partition_run_id::PartitionRunId;
pub use partition_state::{PartitionEvent, PartitionState, PartitionStatus};
pub use pipeline_progress::{
    BudgetCount, PipelineProgress, PipelineStep, SampleCounts, SampleOutcome,
};
pub use pipeline_rules::{BudgetExceeded, FailureBudget, PipelineRules};
pub use pipeline_state::{PipelineEvent, PipelineStatus};
pub use plan_pace::{MAX_PLAN_STEP, PlanAbort, PlanBatch, PlanCounts, PlanStep, PlanTiming};
pub use plan_settings::{AbortShare, InvalidPlanSettings, InvalidShare, PlanSettings};
pub use plan_state::{PlanEvent, PlanStatus};
pub use policy::{
    AT_LEAST_BASE, Backoff, FieldProblem, InvalidPolicy, MAX_MULTIPLIER, Policy, PolicyOverrides,
    PolicySpec,
};
pub use policy_rules::{PolicyRule, RuleMatch, StoredFailure};
pub use preset::Preset;
pub use rate::{InvalidRate, Rate};
pub use retriable::Retriable;
pub use retry_after::parse_retry_after;
pub use retry_forecast::{FailedPartition, RetryForecast, TerminalReason};
pub use run_state::{RunEvent, RunState, RunStatus};
pub use sample_state::{SampleEvent, SampleState, SampleStatus};
pub use schedule::{Scheduled, schedule};
pub use terminal_mark::{
    TERMINAL_MARK, clear_terminal, defuse_terminal_mark, is_marked_terminal, mark_terminal,
};
pub use unit::{InvalidUnit, MAX_KEY_BYTES, PartitionKey, Unit};

/// A transition that the state machine of a unit does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{event} is not allowed for a {kind} that is {state}")]
pub struct IllegalTransition {
    /// `partition`, `run`, `item`, `sample`, `pipeline run`, `plan` or `gate`.
    pub kind: &'static str,
    pub state: &'static str,
    pub event: &'static str,
}
