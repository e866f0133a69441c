//! Plans: bulk actions that are previewed, paced, watched and undone.
//!
//! - `freeze`: makes the list of units of a plan
//! - `executor`: applies, watches and undoes plans under leases

mod executor;
mod freeze;

pub use executor::{PLAN_LEASE, PlanExecutor};
pub use freeze::{Refuse, freeze_plan};
