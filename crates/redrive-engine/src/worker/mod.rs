//! The worker loop: claims units in batches, runs their handlers with bounded concurrency, and writes results in batches.
//!
//! Every kind of work goes through this code: runs, partitions, samples and the sources of pipelines implement
//! [`Work`](work::Work). In reading order:
//!
//! - `engine`: starts a loop for each queue, source and pipeline stage, and a reaper for each kind of unit
//! - `work`: what a kind of work provides; `unit_leases`: what all kinds share
//! - `worker_loop`: the loop itself
//! - `claim`, `prefetch`, `handoff`: how units arrive, and how many are claimed ahead
//! - `held_leases`, `renewer`, `lease_clock`: which leases a loop holds, and how they stay valid
//! - `finisher`, `release`, `store_retry`, `write_times`: how results and releases are written
//! - `reaper`: ends the attempts of lost workers; `write_probe`: whether the store takes writes
//! - `reporter`: tells the store which process this is, and counts attempts
//! - `known_leases`: releases units whose claim was not answered
//! - `backpressure`: claims nothing while attempts cannot run
//! - `failures`: the failures of attempts that returned no outcome

pub(crate) mod engine;

pub(crate) mod unit_leases;
pub(crate) mod work;

pub(crate) mod worker_loop;

pub(crate) mod claim;
pub(crate) mod handoff;
pub(crate) mod prefetch;

pub(crate) mod held_leases;
pub(crate) mod lease_clock;
pub(crate) mod renewer;

pub(crate) mod finisher;
pub(crate) mod release;
pub(crate) mod store_retry;
pub(crate) mod write_times;

pub(crate) mod known_leases;
pub(crate) mod reaper;
pub(crate) mod reporter;
pub(crate) mod write_probe;

pub(crate) mod backpressure;
pub(crate) mod failures;
