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

pub use attempt::AttemptShown;
pub use changed::{ItemChanged, PartitionChanged, RunChanged, SampleChanged};
pub use changed::{partition_state_name, run_state_name};
pub use checkup::CheckupShown;
pub use finding::FindingShown;
pub use gap::GapShown;
pub use item::ItemShown;
pub use journal::JournalShown;
pub use migration::MigrationShown;
pub use overview::{
    DueShown, MinuteShown, OverviewShown, RecentCauseShown, SourceCountShown, UnitCountShown,
};
pub use partition::PartitionShown;
pub use pipeline::{PipelineRunShown, StageCountShown};
pub use policy::{PolicyShown, WaitShown};
pub use prune::{PruneShown, PrunedFileShown};
pub use queue::{QueueShown, QueueStatsShown};
pub use readable::ReadableShown;
pub use run::RunShown;
pub use sample::{CauseShown, DlqReason, SampleShown, SampleWithLedger};
pub use stage_stats::{ErrorShown, HistogramShown, PipelineStatsShown, StageStatsShown};
