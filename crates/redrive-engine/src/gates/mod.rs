//! Gates on the side of a worker: what its units pass, and which units it keeps back.
//!
//! The store decides what a claim may take. A worker has to know of closed gates only for units that it claimed ahead and has
//! not started: those are released as soon as it learns that their gate is no longer open.

pub(crate) mod closed_time;
pub(crate) mod known_gates;
pub(crate) mod work_gates;
