//! The test suite that every store passes, and the lease protocol as a model.
//!
//! - [`suite`]: one test per behaviour of a store; new store behaviour starts here
//! - [`protocol`]: the lease protocol as a model, explored completely; `suite::protocol` walks it on the real stores

pub mod protocol;
pub mod suite;
