//! The attempt that a span describes.

use redrive_core::Unit;
use redrive_store::AttemptRecord;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedAttempt {
    pub unit: Unit,
    /// The name of the queue, source, upload or pipeline stage. The span is named after it.
    pub place: String,
    /// More attributes: names without `redrive.`, and values.
    pub details: Vec<(&'static str, String)>,
    /// The row of the ledger. Its unit is not used.
    pub row: AttemptRecord,
}
