//! Runs: units of a durable queue.
//!
//! - `queue`: a queue and its handler
//! - `work`: the runs of one queue, as work for the worker loop

pub(crate) mod queue;
pub(crate) mod work;
