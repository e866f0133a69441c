//! Plans: bulk actions that are previewed, paced, watched and undone.
//!
//! - `freeze`: makes the list of units of a plan
//! - `executor`: applies, watches and undoes plans under leases
//! - `settling`: when and where to look for outcomes
//! - `waits`: why pending units of a plan cannot end

mod executor;
mod freeze;
mod settling;
mod waits;

pub use executor::{PLAN_LEASE, PlanExecutor, PlanRun};
pub use freeze::{JudgedUnit, PlanPages, PlanVerdict, freeze_plan};
pub use waits::{plan_waits_for, plan_waits_for_check};
