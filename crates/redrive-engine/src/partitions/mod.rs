//! Partitions of extracted data: extracted as a whole, sealed, and accepted by a validator.
//!
//! - `source`: where partitions come from, as declared
//! - `work`: one attempt at a partition
//! - `extractor`, `raw`, `validator`: the three steps of an attempt
//! - `lane_shares`, `run_ids`: which partitions are claimed next, and the ids of their attempts
//! - `schedules`: when new partitions become due
//! - `control`: what operators do to partitions
//! - `daemon`: retries failed partitions when they are due
//! - `consumer`: reads accepted partitions

pub(crate) mod source;
pub(crate) mod work;

pub(crate) mod extractor;
pub(crate) mod raw;
pub(crate) mod validator;

pub(crate) mod lane_shares;
pub(crate) mod run_ids;

pub(crate) mod schedules;

pub(crate) mod control;

pub(crate) mod daemon;

pub(crate) mod consumer;
