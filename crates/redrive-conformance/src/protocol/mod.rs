//! Models of the lease protocol and of the gate protocol, small enough to explore completely.
//!
//! The model of leases has one run, any number of workers and reapers, and an operator. A [`ModelStep`] is
//! one action of an actor. A worker may be slow, crash, or miss the response to a write, so every
//! order of steps is a walk through the model. The number of claims, losses and actions is not
//! limited: epochs and attempt numbers matter only relative to the row, so the number of states is
//! finite, and [`explore()`] visits each state.
//!
//! The model of gates (`gates.rs`) has a gate, and workers that claim behind it as many runs as they like.
//!
//! The models cover what SQL does: `row.rs` has the guards of the statements. The written values
//! come from the code of the stores: [`RunState`](redrive_core::RunState),
//! [`decide`](redrive_core::decide), [`RunFinish::columns`](redrive_store::RunFinish::columns) and
//! [`RunAction::changes`](redrive_store::RunAction::changes), and
//! [`GateState`](redrive_core::GateState). The conformance suite walks every
//! situation of the models on the real stores, so the guards cannot drift from the SQL.
//!
//! `invariants.rs` and `gate_invariants.rs` have the invariants of every step. A [`ModelMutant`] or [`GateMutant`] breaks one
//! rule; a test checks that each mutant violates an invariant.

mod actors;
mod explore;
mod gate_invariants;
mod gates;
mod invariants;
mod lease_model;
mod row;
mod state;

pub(crate) use self::gates::{CLOSED_FOR, HINT};
pub use self::{
    actors::{ModelClaim, ModelCompletion, WorkerReport},
    explore::{Exploration, Model, Violation, explore},
    gates::{GateModel, GateMutant, GateReport, GateStep, GateWorker},
    row::{Effect, ModelMutant, ModelRow},
    state::{ActorCounts, ModelActor, ModelState, ModelStep},
};
