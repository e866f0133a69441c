//! Worlds of partitions: workers that extract and judge, several daemons, operators and consumers, all
//! after the same few keys, over a store that fails. When faults end, everything must come to its end.

mod cast;
mod operators;
mod plan;
mod sources;
mod world;

mod ending;
mod story;

mod mutants;
mod seeds;

pub(crate) use self::{plan::Plan, sources::Sources};
