//! What Redrive shows of a store, and what may be done there.
//!
//! The command line, the API and the dashboard are three faces of this one [`Desk`]: records are read, put
//! in words and changed here, so that all three show the same and act alike.

mod checkups;
mod declared;
mod desk;
mod instant;
mod items;
mod metrics;
mod new_run;
mod overview;
mod partitions;
mod pipelines;
mod policies;
mod runs;
pub mod shown;
mod story;
mod watch;
pub mod words;

pub use checkups::{Checkups, Surroundings, with_causes};
pub use declared::{Declared, DeclaredPipeline, DeclaredQueue, DeclaredSource, DeclaredUpload};
pub use desk::Desk;
pub use instant::parse_instant;
pub use items::{ItemSelection, NotAdded};
pub use metrics::{Counted, Lengths};
pub use new_run::read_run;
pub use partitions::{GapFilter, PartitionQuery};
pub use policies::{PolicyChanges, Waits, parse_max_attempts};
pub use runs::{RunSelection, state_of};
pub use story::{
    Asked, ItemStory, Next, PartitionNext, PartitionStory, RunStory, SampleStory, StageStory, Story,
};
pub use watch::Watch;
