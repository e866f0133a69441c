//! The names of what a validator finds.

/// The codes of rejected partitions. None is final: another extraction may do better.
pub mod verdict_code {
    /// Nothing was sealed, or its payload is gone.
    pub const NO_RAW_PARTITION: &str = "no_raw_partition";
    /// The payload has another hash than when it was sealed.
    pub const HASH_MISMATCH: &str = "hash_mismatch";
    /// The payload has another number of records than its metadata says.
    pub const COUNT_MISMATCH: &str = "count_mismatch";
    /// The metadata is not what a seal writes.
    pub const BAD_METADATA: &str = "bad_metadata";
    /// A line is not a JSON object.
    pub const BAD_ROW: &str = "bad_row";
    /// There are fewer rows than asked for.
    pub const TOO_FEW_ROWS: &str = "too_few_rows";
    /// There are more rows than allowed.
    pub const TOO_MANY_ROWS: &str = "too_many_rows";
    /// A row does not fit the schema.
    pub const SCHEMA: &str = "schema";
    /// The user's handler gave another verdict than `passed`.
    pub const REJECTED: &str = "rejected";
    /// The sink could not be read.
    pub const RAW_UNREADABLE: &str = "raw_unreadable";
}
