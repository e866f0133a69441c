//! Redrive: one system for what happens when work fails.
//!
//! Partitions of extracted data, runs in a queue, items of an upload, samples in a pipeline: they
//! fail in different ways, and every system retries them with code of its own. Redrive has one
//! policy, one classification, one decision and one ledger for all of them.
//!
//! The centre is [`decide`], a pure function: time, unit and chance come in as arguments.
//!
//! ```
//! use std::time::Duration;
//! use redrive::{
//!     Decision, Failure, GiveUpReason, History, JitterKey, JitterSeed, Policy, PolicySpec, decide,
//! };
//!
//! let policy = Policy::new(PolicySpec {
//!     max_attempts: Some(3),
//!     base: Duration::from_secs(2),
//!     jitter: redrive::Jitter::None,
//!     ..PolicySpec::default()
//! })?;
//! let unit = "run:7".parse()?;
//! let jitter = JitterKey::new(JitterSeed::default(), &unit);
//! let busy = Failure::http(503, None, "busy");
//! let now = "2026-01-01T00:00:00Z".parse()?;
//!
//! let mut history = History::default();
//! let mut waits = Vec::new();
//! let reason = loop {
//!     let decision = decide(&policy, &history, &busy, now, jitter);
//!     history = history.after(&busy, &decision);
//!     match decision {
//!         Decision::RetryAt { delay, .. } => waits.push(delay.as_secs()),
//!         Decision::GiveUp { reason } => break reason,
//!     }
//! };
//! assert_eq!(waits, [2, 4]);
//! assert_eq!(reason, GiveUpReason::AttemptsExhausted);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`config`] reads the same `redrive.toml` that the command line reads.

pub mod config;
mod nearest;
mod store_url;
mod stores;

pub use redrive_core::*;
pub use store_url::{InvalidStoreUrl, PostgresUrl, StoreUrl};
pub use stores::{migrator, open_migrated_store, open_store};
