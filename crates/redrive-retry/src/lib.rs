//! Retry policies for async operations of one process, without a store.
//!
//! [`retry`] runs an operation until it succeeds or its policy gives up. It uses the same policies, failure classes and
//! `decide` function as the queues, partitions, uploads and pipelines of the `redrive` crate, which re-exports this one.
//!
//! In reading order: `retry` has the options, `retry/progress` the attempts and waits, `retry_state` what is counted.
//! The system clock and the random source are read in `clock` and `rng` only.

mod retry;
mod retry_state;

mod stop;

mod clock;
mod rng;

pub use clock::{Clock, SteadyClock, SystemClock, monotonic};
pub use retry::{
    AnyError, ByItself, Classify, Ended, Explained, GaveUp, Retry, RetryEvent, When, retry,
};
pub use retry_state::{RetryRules, RetryState};
pub use rng::{NoRandomness, random_u64};
pub use stop::{Stop, Stopper};
