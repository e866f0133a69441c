//! An attempt, as a span tells of it.

use redrive_core::Unit;
use redrive_store::AttemptRecord;

/// An attempt that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedAttempt {
    /// The unit.
    pub unit: Unit,
    /// Where it was made: the queue, source, upload or pipeline, by the name that the configuration has. The
    /// span is named by it.
    pub place: String,
    /// More about that: names of attributes without `redrive.`, and values.
    pub details: Vec<(&'static str, String)>,
    /// The row of the ledger, whose unit is not looked at.
    pub row: AttemptRecord,
}
