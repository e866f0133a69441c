//! Plans: bulk actions that are previewed, paced, watched and undone.
//!
//! - `freeze`: makes the list of units of a plan
//! - `executor`: applies, watches and undoes plans under leases
//! - `held_plan`: a plan under the lease of an executor
//! - `settling`: when and where to look for outcomes
//! - `waits`: why pending units of a plan cannot end

mod executor;
mod freeze;
mod held_plan;
mod settling;
mod waits;

pub use executor::{PLAN_LEASE, PlanExecutor, PlanRun};
pub use freeze::{JudgedUnit, PlanPages, PlanVerdict, freeze_plan};
pub use waits::{plan_waits_for, plan_waits_for_check};
