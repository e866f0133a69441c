//! Limits on everything that can grow.

/// The most rows in one call. Callers split more rows into batches.
pub const MAX_BATCH: usize = 10_000;

/// The most rows in one page of a listing.
pub const MAX_PAGE: u32 = 10_000;

/// The most samples of which one claim behind gates notes the keys.
pub const MAX_KEYED: u32 = 500;

/// The longest name of a queue, category, upload, group or item, in bytes.
pub const MAX_NAME_BYTES: usize = 512;

/// The longest idempotency key, in bytes.
pub const MAX_IDEMPOTENCY_KEY_BYTES: usize = 512;

/// The largest payload of a run, in bytes of JSON. Put more data into a file and its path into the
/// payload.
pub const MAX_PAYLOAD_BYTES: usize = 1024 * 1024;

/// The largest sample, in bytes of JSON. A longer line of a source becomes a dead letter, and so
/// does a sample that a stage makes longer.
pub const MAX_SAMPLE_BYTES: usize = 16 * 1024 * 1024;
