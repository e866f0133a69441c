//! The protocol of leases and finishes, as a model that is small enough to be looked at completely.
//!
//! One run, any number of workers and reapers, an operator. Whatever anybody may do next is a [`ModelStep`]; a
//! worker may be slow, die, or never hear the answer to what it wrote, and so every order of every step is
//! a walk through the model. There is no bound on claims, losses or wishes: epochs and numbers matter only
//! relative to the row, so the states are finitely many, and [`explore()`] visits each.
//!
//! What is modelled is what SQL does, and no more: `row.rs` has the guards of the statements. What they write
//! comes from the code that the stores use: [`RunState`](redrive_core::RunState),
//! [`decide`](redrive_core::decide), [`RunFinish::columns`](redrive_store::RunFinish::columns) and
//! [`RunAction::changes`](redrive_store::RunAction::changes). So that the guards are not a copy that drifts, the
//! conformance suite walks every situation of the model on the real store.
//!
//! `invariants.rs` says what must hold at every step. A [`ModelMutant`] breaks one rule; a test has each found out.

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
