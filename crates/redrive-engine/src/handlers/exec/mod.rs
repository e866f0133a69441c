//! Starts one program per call (HANDLERS-2).
//!
//! - `exec_handler`: starts a [`program`](crate::handlers::program) with the call in its environment
//! - `supervisor`: feeds the program, reads its output, enforces the limits, stops it
//! - `last_line`: keeps the line that may be the reply
//! - `conclusion`: makes the outcome
//! - `extraction`: passes every line on to the raw sink, for extractors

mod exec_handler;
mod spec;

mod last_line;
mod supervisor;

mod conclusion;
mod extraction;

pub use self::{exec_handler::ExecHandler, spec::ExecSpec};
pub(crate) use self::{exec_handler::ProgramInput, supervisor::OutputSink};
