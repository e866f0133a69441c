//! Reads partitions from their columns.

use redrive_core::{LogicalDate, PartitionId, PartitionKey, PartitionRunId, PartitionStatus};
use redrive_store::{
    Error, Lane, PartitionRecord, PartitionWorkRecord, Result, WorkColumns, WorkKind,
};
use rusqlite::{Connection, params};

use crate::{
    columns::{SqliteRow, read_rows},
    queries,
};

pub(crate) fn written_date(date: LogicalDate) -> String {
    date.to_string()
}

pub(crate) fn read_date(row: &mut SqliteRow<'_>) -> Result<LogicalDate> {
    row.named("logical_date", |text| text.parse().ok())
}

pub(crate) fn by_key(
    connection: &Connection,
    key: &PartitionKey,
) -> Result<Option<PartitionRecord>> {
    const DOING: &str = "reading partitions";
    let date = written_date(key.logical_date());
    let params = params![key.source(), key.customer_id(), key.query_name(), date];
    let rows = read_rows(connection, DOING, queries::PARTITIONS_BY_KEY, params, read_partition)?;
    Ok(rows.into_iter().next())
}

/// Partitions by the ids of their work rows.
pub(crate) fn at_work(
    connection: &Connection,
    doing: &'static str,
    ids: &[i64],
) -> Result<Vec<PartitionRecord>> {
    let ids = serde_json::Value::from(ids).to_string();
    read_rows(connection, doing, queries::PARTITIONS_AT_WORK, [ids], read_partition)
}

pub(crate) fn read_partition(row: &mut SqliteRow<'_>) -> Result<PartitionRecord> {
    Ok(PartitionRecord {
        id: PartitionId(row.get()?),
        key: read_key(row)?,
        status: row.named("status", PartitionStatus::from_name)?,
        current_run_id: read_run_id(row, "current_run_id")?,
        schema_version: row.get()?,
        record_count: row.get()?,
        attempt_count: row.get()?,
        error_message: row.get()?,
        updated_at: row.timestamp()?,
        first_attempt_at: row.optional_timestamp()?,
        work: read_work(row)?,
    })
}

fn read_key(row: &mut SqliteRow<'_>) -> Result<PartitionKey> {
    let (source, customer_id, query_name): (String, String, String) =
        (row.get()?, row.get()?, row.get()?);
    PartitionKey::new(&source, &customer_id, &query_name, read_date(row)?)
        .map_err(|invalid| Error::bad_value("reading partitions", invalid.field, invalid.value))
}

fn read_run_id(row: &mut SqliteRow<'_>, column: &'static str) -> Result<Option<PartitionRunId>> {
    row.optional_named(column, |text| text.parse().ok())
}

fn read_work(row: &mut SqliteRow<'_>) -> Result<Option<PartitionWorkRecord>> {
    let columns = WorkColumns {
        id: row.get()?,
        kind: row.optional_named("kind", WorkKind::from_name)?,
        lane: row.optional_named("lane", Lane::from_name)?,
        requested_at: row.optional_timestamp()?,
        requested_by: row.get()?,
        run_id: read_run_id(row, "run_id")?,
        lease_owner: row.get()?,
        lease_epoch: row.get()?,
        lease_until: row.optional_timestamp()?,
        paused_at: row.optional_timestamp()?,
        paused_by: row.get()?,
        pause_reason: row.get()?,
    };
    Ok(columns.into_work())
}
