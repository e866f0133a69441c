//! Conversions between partitions and their columns.

use crate::{
    batch::each,
    bound_query::columns,
    columns::{Day, PostgresRow},
};
use redrive_core::{PartitionId, PartitionKey, PartitionRunId, PartitionStatus};
use redrive_store::{
    Error, Lane, PartitionRecord, PartitionWorkRecord, Result, WorkColumns, WorkKind,
};

columns! {
    /// Partition keys as arrays.
    pub(crate) struct KeyColumns<'a> {
        source: Vec<&'a str>,
        customer_id: Vec<&'a str>,
        query_name: Vec<&'a str>,
        logical_date: Vec<Day>,
    }
}

impl<'a> KeyColumns<'a> {
    pub(crate) fn of(keys: &[&'a PartitionKey]) -> Self {
        Self {
            source: each(keys, |key| key.source()),
            customer_id: each(keys, |key| key.customer_id()),
            query_name: each(keys, |key| key.query_name()),
            logical_date: each(keys, |key| Day::On(key.logical_date())),
        }
    }
}

pub(crate) fn read_partition(row: &mut PostgresRow<'_>) -> Result<PartitionRecord> {
    Ok(PartitionRecord {
        id: PartitionId(row.get()?),
        key: read_key(row)?,
        status: row.named("status", PartitionStatus::from_name)?,
        current_run_id: read_run_id(row, "current_run_id")?,
        schema_version: row.get()?,
        record_count: row.get::<Option<i64>>()?.map(i64::unsigned_abs),
        attempt_count: row.count("attempt_count")?,
        error_message: row.get()?,
        updated_at: row.timestamp()?,
        first_attempt_at: row.optional_timestamp()?,
        work: read_work(row)?,
    })
}

pub(crate) fn read_key(row: &mut PostgresRow<'_>) -> Result<PartitionKey> {
    let (source, customer_id, query_name): (&str, &str, &str) =
        (row.get()?, row.get()?, row.get()?);
    PartitionKey::new(source, customer_id, query_name, row.date()?)
        .map_err(|invalid| Error::bad_value("reading partitions", invalid.field, invalid.value))
}

pub(crate) fn read_run_id(
    row: &mut PostgresRow<'_>,
    column: &'static str,
) -> Result<Option<PartitionRunId>> {
    row.optional_named(column, |text| text.parse().ok())
}

fn read_work(row: &mut PostgresRow<'_>) -> Result<Option<PartitionWorkRecord>> {
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
