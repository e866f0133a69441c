//! Everything that can grow has a limit with a name.

/// The most rows one call may carry. Callers cut longer work into batches.
pub const MAX_BATCH: usize = 10_000;

/// The most rows one page of a listing may hold.
pub const MAX_PAGE: u32 = 10_000;

/// The longest name of a queue, category, upload, group or item, in bytes.
pub const MAX_NAME_BYTES: usize = 512;

/// The longest idempotency key, in bytes.
pub const MAX_IDEMPOTENCY_KEY_BYTES: usize = 512;

/// The largest payload of a run, in bytes of JSON. Larger things belong in a file that the payload
/// names.
pub const MAX_PAYLOAD_BYTES: usize = 1024 * 1024;

/// The largest sample, in bytes of JSON. A line of a source that is longer is a dead letter, and so is
/// a sample that a stage makes longer.
pub const MAX_SAMPLE_BYTES: usize = 16 * 1024 * 1024;
