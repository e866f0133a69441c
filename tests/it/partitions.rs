//! Partitions as their users meet them: the real worker, real programs, both stores.

mod yard;

mod authority;
mod example;
mod extractors;
mod large;
mod scheduled;
mod shares;
mod stopped;
mod verdicts;

mod seed_000;
mod seed_001;
