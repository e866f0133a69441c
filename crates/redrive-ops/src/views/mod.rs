//! Serializable views of the stored records. The command line prints them, the API returns them and the dashboard
//! renders them, so all three use the same field names: those of the columns.

mod activity;
mod attempt;
mod cause;
mod checkup;
mod finding;
mod gap;
mod gate;
mod journal;
mod migration;
mod overview;
mod partition;
mod pipeline;
mod plan;
mod plan_outcomes;
mod policy;
mod prune;
mod queue;
mod readable;
mod sample;
mod stage_stats;
mod worker;

pub use activity::{ActivityColumnView, ActivityPlace, ActivityRange, ActivityView};
pub use attempt::AttemptView;
pub(crate) use cause::last_day;
pub use cause::{CausePlaceView, CauseView};
pub use checkup::CheckupView;
pub use finding::FindingView;
pub use gap::GapView;
pub use gate::GateView;
pub(crate) use gate::gate_obstacle;
pub use journal::JournalView;
pub use migration::MigrationView;
pub use overview::{DueView, MinuteView, OverviewView, SourceCountView, UnitCountView};
pub use partition::PartitionView;
pub use pipeline::{PipelineRunView, StageCountView};
pub use plan::{PlanUnitView, PlanUnitsView, PlanView};
pub use plan_outcomes::{PlanCanaryView, PlanPeriodView};
pub use policy::{PolicyView, WaitView};
pub use prune::{PruneView, PrunedFileView};
pub use queue::{QueueStatsView, QueueView};
pub use readable::ReadableView;
pub use sample::{DeadCauseView, DlqReason, SampleView, SampleWithLedger};
pub use stage_stats::{ErrorView, HistogramView, PipelineStatsView, StageStatsView};
pub use worker::{UnattendedView, WorkerPlaceView, WorkerView};
