//! The error codes of rejected partitions.

pub(crate) use redrive_core::NO_RAW_PARTITION;

/// The codes of rejected partitions. None is final: another extraction may succeed.
pub mod verdict_code {
    /// The extraction sealed nothing, or the payload is missing.
    pub const NO_RAW_PARTITION: &str = "no_raw_partition";
    /// The hash of the payload differs from the hash in its metadata.
    pub const HASH_MISMATCH: &str = "hash_mismatch";
    /// The number of records differs from the number in the metadata.
    pub const COUNT_MISMATCH: &str = "count_mismatch";
    /// The metadata is not valid.
    pub const BAD_METADATA: &str = "bad_metadata";
    /// A line is not a JSON object, or longer than [`MAX_ROW_BYTES`](crate::MAX_ROW_BYTES).
    pub const BAD_ROW: &str = "bad_row";
    /// Fewer rows than `min_rows`.
    pub const TOO_FEW_ROWS: &str = "too_few_rows";
    /// More rows than `max_rows`.
    pub const TOO_MANY_ROWS: &str = "too_many_rows";
    /// A row does not match the JSON Schema.
    pub const SCHEMA: &str = "schema";
    /// The validation handler returned a verdict other than `passed`.
    pub const REJECTED: &str = "rejected";
    /// The raw sink could not be read.
    pub const RAW_UNREADABLE: &str = "raw_unreadable";

    pub const ALL: [&str; 10] = [
        NO_RAW_PARTITION,
        HASH_MISMATCH,
        COUNT_MISMATCH,
        BAD_METADATA,
        BAD_ROW,
        TOO_FEW_ROWS,
        TOO_MANY_ROWS,
        SCHEMA,
        REJECTED,
        RAW_UNREADABLE,
    ];
}
