//! Records as everyone is shown them, under the names of their columns: the command line prints these, the
//! API answers with these, and the dashboard is drawn from them.

mod attempt;
mod changed;
mod checkup;
mod finding;
mod gap;
mod item;
mod journal;
mod migration;
mod overview;
mod partition;
mod pipeline;
mod policy;
mod prune;
mod queue;
mod readable;
mod run;
mod sample;
mod stage_stats;

pub use attempt::AttemptView;
pub use changed::{ItemChangeView, PartitionChangeView, RunChangeView, SampleChangeView};
pub use changed::{partition_state_name, run_state_name};
pub use checkup::CheckupView;
pub use finding::FindingView;
pub use gap::GapView;
pub use item::ItemView;
pub use journal::JournalView;
pub use migration::MigrationView;
pub use overview::{
    DueView, MinuteView, OverviewView, RecentCauseView, SourceCountView, UnitCountView,
};
pub use partition::PartitionView;
pub use pipeline::{PipelineRunView, StageCountView};
pub use policy::{PolicyView, WaitView};
pub use prune::{PruneView, PrunedFileView};
pub use queue::{QueueStatsView, QueueView};
pub use readable::ReadableView;
pub use run::RunView;
pub use sample::{CauseView, DlqReason, SampleView, SampleWithLedger};
pub use stage_stats::{ErrorView, HistogramView, PipelineStatsView, StageStatsView};
