//! What runs, watches and checks the work in a store.
//!
//! The engine holds an `Arc<dyn Store>` and never knows which database that is. Time and chance enter
//! here, each in one file, and are handed down from here as arguments.
//!
//! The [`checker`] reads a whole store and reports every unit that breaks an invariant. `redrive
//! doctor` runs it on a real store.

mod chance;
mod clock;

pub mod checker;

mod run_invariants;

pub use chance::random_worker_id;
pub use clock::{Clock, SystemClock};
