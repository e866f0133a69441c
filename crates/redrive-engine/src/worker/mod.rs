//! The worker loop: claims units in batches, runs their handlers with bounded concurrency, and writes results in batches.
//!
//! Every kind of work goes through this code: runs, partitions, samples and the sources of pipelines implement
//! [`Work`](work::Work). In reading order:
//!
//! - `engine`: starts one loop for each queue, source and pipeline stage of a process
//! - `work`: what a kind of work provides
//! - `worker_loop`: the loop itself
//! - `claim`, `prefetch`, `handoff`: how units arrive, and how many are claimed ahead
//! - `held_leases`, `renewer`, `lease_clock`: which leases this worker holds, and how they stay valid
//! - `finisher`: writes results in batches
//! - `reaper`: ends attempts whose worker was lost
//! - `backpressure`: claims nothing while attempts cannot start
//! - `failures`: the failures that the loop itself reports

pub(crate) mod engine;
pub(crate) mod work;
pub(crate) mod worker_loop;

pub(crate) mod claim;
pub(crate) mod handoff;
pub(crate) mod prefetch;

pub(crate) mod held_leases;
pub(crate) mod lease_clock;
pub(crate) mod renewer;

pub(crate) mod finisher;
pub(crate) mod settled;
pub(crate) mod write_times;

pub(crate) mod reaper;

pub(crate) mod backpressure;
pub(crate) mod failures;
