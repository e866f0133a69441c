//! The one source of randomness.

use redrive_store::WorkerId;

/// The system gave no randomness.
#[derive(Debug, thiserror::Error)]
#[error("the system gives no randomness")]
pub struct NoChance(#[source] getrandom::Error);

/// A name for this process that no other has, also not the one that ran under this host name or
/// process id before.
pub fn random_worker_id() -> Result<WorkerId, NoChance> {
    let number = getrandom::u64().map_err(NoChance)?;
    Ok(WorkerId(format!("w-{number:016x}")))
}
