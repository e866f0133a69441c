//! Records as everyone is shown them, under the names of their columns: the command line prints these, the
//! API answers with these, and the dashboard is drawn from them.

mod attempt;
mod changed;
mod gap;
mod item;
mod journal;
mod overview;
mod partition;
mod pipeline;
mod queue;
mod run;
mod sample;
mod stage_stats;

pub use attempt::AttemptShown;
pub use changed::{ItemChanged, PartitionChanged, RunChanged, SampleChanged};
pub use changed::{partition_state_name, run_state_name};
pub use gap::GapShown;
pub use item::ItemShown;
pub use journal::JournalShown;
pub use overview::{
    DueShown, MinuteShown, OverviewShown, RecentCauseShown, SourceCountShown, UnitCountShown,
};
pub use partition::PartitionShown;
pub use pipeline::{PipelineRunShown, StageCountShown};
pub use queue::{QueueShown, QueueStatsShown};
pub use run::RunShown;
pub use sample::{CauseShown, DlqReason, SampleShown, SampleWithLedger};
pub use stage_stats::{ErrorShown, HistogramShown, PipelineStatsShown, StageStatsShown};
