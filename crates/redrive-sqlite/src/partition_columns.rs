//! Reads partitions from their columns.

use redrive_core::{LogicalDate, PartitionKey};
use redrive_store::{PartitionRecord, Result};
use rusqlite::{Connection, params};

use crate::{
    columns::{json_ids, read_records},
    queries,
};

pub(crate) fn written_date(date: LogicalDate) -> String {
    date.to_string()
}

pub(crate) fn by_key(
    connection: &Connection,
    key: &PartitionKey,
) -> Result<Option<PartitionRecord>> {
    const DOING: &str = "reading partitions";
    let date = written_date(key.logical_date());
    let params = params![key.source(), key.customer_id(), key.query_name(), date];
    Ok(read_records(connection, DOING, queries::PARTITIONS_BY_KEY, params)?.pop())
}

/// Partitions by the ids of their work rows.
pub(crate) fn at_work(
    connection: &Connection,
    doing: &'static str,
    ids: &[i64],
) -> Result<Vec<PartitionRecord>> {
    let ids = json_ids(ids.iter().copied());
    read_records(connection, doing, queries::PARTITIONS_AT_WORK, [ids])
}
