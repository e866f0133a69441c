//! The one source of randomness.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

use redrive_core::{JitterKey, JitterSeed};
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

/// The jitter of a unit that has no name: another for each, in every process. The system is asked once.
/// Where it gives no randomness, processes are alike: a retry is no reason to fail.
pub(crate) fn jitter_of_the_nameless() -> JitterKey {
    static SEED: OnceLock<u64> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let seed = *SEED.get_or_init(|| getrandom::u64().unwrap_or_default());
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    JitterKey::written(JitterSeed(seed.wrapping_add(number)), "")
}
