//! The only source of randomness.

use redrive_core::{JitterKey, JitterSeed};

/// The operating system returned no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("the operating system returned no random bytes")]
pub struct NoRandomness(#[source] getrandom::Error);

/// A random number from the operating system.
pub fn random_u64() -> Result<u64, NoRandomness> {
    getrandom::u64().map_err(NoRandomness)
}

/// Jitter for a call without a unit name: different for every call and process. Without randomness all such calls
/// share one jitter, because a retry must not fail for that reason.
pub(crate) fn unnamed_jitter() -> JitterKey {
    JitterKey::written(JitterSeed(random_u64().unwrap_or_default()), "")
}
