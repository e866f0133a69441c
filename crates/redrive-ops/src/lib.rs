//! Reads and operator actions on a store.
//!
//! The command line, the API and the dashboard all use [`Ops`], so they show the same views and perform the same
//! actions.

mod activity;
mod causes;
mod checkups;
mod declared;
mod explain;
mod gates;
mod instant;
mod items;
mod logs;
mod metrics;
mod new_run;
mod ops;
mod overview;
mod partitions;
mod pipelines;
mod plan_details;
mod plan_orders;
mod plans;
mod policies;
mod resources;
mod runs;
mod unserved;
pub mod views;
mod watch;
pub mod words;
mod workers;

pub use checkups::{Checkups, Environment, with_causes};
pub use declared::{
    Declarations, DeclaredPipeline, DeclaredPolicy, DeclaredQueue, DeclaredSource, DeclaredUpload,
    INLINE, UndeclaredName,
};
pub use explain::{
    ExplainTarget, Explanation, ItemExplanation, Next, PartitionExplanation, PartitionNext,
    RunExplanation, SampleExplanation, StageExplanation, TimelineAttempt, TimelineStep, timeline,
};
pub use instant::{parse_instant, parse_past};
pub use items::{AddItemError, ReplaceError, check_replacement, dropped_items};
pub use logs::LogView;
pub use metrics::{AttemptCounters, DurationHistogram};
pub use new_run::{RunRefusal, read_run};
pub use ops::Ops;
pub use partitions::GapFilter;
pub use plan_orders::OrderRefusal;
pub use plans::{BulkAction, BulkSurvey, PlanUnitChange};
pub use policies::{KnownPolicies, NoSuchPolicy, Waits, parse_max_attempts};
pub use resources::{
    ActionDeclaration, ActionOption, ActionOptions, Button, CONFIRM_ABOVE, ChangeRequest,
    ChangeResult, Changeable, Column, ColumnKind, ItemAction, Note, OptionKind, OutcomeCounts,
    Page, Resource, SampleAction, TermText, UnitAction, UnitChange, parse_fingerprint,
    partition_change, plan_action, run_state_name,
};
pub use runs::EditRunError;
pub use watch::Watch;
