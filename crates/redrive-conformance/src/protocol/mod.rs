//! The protocol of leases and finishes, as a model that is small enough to be looked at completely.
//!
//! One run, any number of workers and reapers, an operator. Whatever anybody may do next is a [`Step`]; a
//! worker may be slow, die, or never hear the answer to what it wrote, and so every order of every step is
//! a walk through the model. There is no bound on claims, losses or wishes: epochs and numbers matter only
//! relative to the row, so the worlds are finitely many, and [`explore()`] visits each.
//!
//! What is modelled is what SQL does, and no more: `row.rs` has the guards of the statements. What they write
//! comes from the code that the stores use: [`RunState`](redrive_core::RunState),
//! [`decide`](redrive_core::decide), [`RunFinish::columns`](redrive_store::RunFinish::columns) and
//! [`RunAction::changes`](redrive_store::RunAction::changes). So that the guards are not a copy that drifts, the
//! conformance suite walks every situation of the model on the real store.
//!
//! `laws.rs` says what must hold at every step. A [`Mutant`] breaks one rule; a test has each found out.

mod actors;
mod explore;
mod laws;
mod row;
mod world;

pub use self::{
    actors::{Claim, End, Said},
    explore::{Explored, Flaw, explore},
    row::{Mutant, Row},
    world::{Cast, Seat, Step, World},
};
