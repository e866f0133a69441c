//! A model of the lease protocol, small enough to explore completely.
//!
//! The model has one run, any number of workers and reapers, and an operator. A [`ModelStep`] is
//! one action of an actor. A worker may be slow, crash, or miss the response to a write, so every
//! order of steps is a walk through the model. The number of claims, losses and actions is not
//! limited: epochs and attempt numbers matter only relative to the row, so the number of states is
//! finite, and [`explore()`] visits each state.
//!
//! The model covers what SQL does: `row.rs` has the guards of the statements. The written values
//! come from the code of the stores: [`RunState`](redrive_core::RunState),
//! [`decide`](redrive_core::decide), [`RunFinish::columns`](redrive_store::RunFinish::columns) and
//! [`RunAction::changes`](redrive_store::RunAction::changes). The conformance suite walks every
//! situation of the model on the real stores, so the guards cannot drift from the SQL.
//!
//! `invariants.rs` has the invariants of every step. A [`ModelMutant`] breaks one rule; a test
//! checks that each mutant violates an invariant.

mod actors;
mod explore;
mod invariants;
mod row;
mod state;

pub use self::{
    actors::{ModelClaim, ModelCompletion, WorkerReport},
    explore::{Exploration, Violation, explore},
    row::{ModelMutant, ModelRow},
    state::{ActorCounts, ModelActor, ModelState, ModelStep},
};
