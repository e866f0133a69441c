//! Partitions of extracted data: a partition is extracted as a whole, sealed, and accepted by a validator.
//!
//! - `source`: the declaration of a source, its extractor and its validation rules
//! - `work`: one attempt at a partition, as work for the worker loop
//! - `extractor`, `raw`, `validator`: the three steps of an attempt
//! - `fit_trials`: which partition does not fit on the raw disk
//! - `lane_shares`, `run_ids`: how many partitions of each lane a claim takes, and the ids of their runs
//! - `schedules`: creates partitions when they become due
//! - `control`: the changes that operators and the daemon make to partitions
//! - `retry_daemon`: retries failed partitions when they are due
//! - `consumer`: reads accepted partitions

pub(crate) mod source;
pub(crate) mod work;

pub(crate) mod extractor;
pub(crate) mod raw;
pub(crate) mod validator;

pub(crate) mod fit_trials;
pub(crate) mod lane_shares;
pub(crate) mod run_ids;

pub(crate) mod schedules;

pub(crate) mod control;

pub(crate) mod retry_daemon;

pub(crate) mod consumer;
