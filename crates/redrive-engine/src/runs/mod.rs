//! Runs: units of a durable queue.

pub(crate) mod work;
