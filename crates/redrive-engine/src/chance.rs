//! The one source of randomness.

use redrive_store::WorkerId;

/// A name for this process that no other has, also not the one that ran under this host name or
/// process id before.
pub fn random_worker_id() -> Result<WorkerId, getrandom::Error> {
    Ok(WorkerId(format!("w-{:016x}", getrandom::u64()?)))
}
