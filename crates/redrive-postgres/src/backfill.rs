//! Backfills: creates entries and work for many new partitions at once.
//!
//! A partition without an entry has no state to decide about, so nothing is locked or read before: one query
//! inserts the entries, the work and the journal entries, in one round trip. Existing partitions stay as they are
//! and are read only to report their state.

use std::collections::{BTreeSet, HashMap};

use crate::{
    PostgresStore,
    batch::each,
    bound_query::bind,
    columns::{Micros, read_records},
    partition_columns::KeyColumns,
    partition_writes::read_created,
    queries,
};
use redrive_core::{PartitionId, PartitionKey, PartitionState};
use redrive_store::{
    AuditContext, NamedPartition, PartitionAction, PartitionChange, PartitionRecord,
    PartitionWrite, Result,
};

/// Begins the transaction of a backfill. Its many rows are joined by text: with the settings of the session, which
/// keep other queries on their indexes, the join would compare every row with every other.
pub const BEGIN_BACKFILL: &str =
    "BEGIN; SET LOCAL enable_hashjoin = on; SET LOCAL enable_nestloop = off";

/// Creates missing entries and returns the outcome for each partition.
pub(crate) async fn backfill(
    store: &PostgresStore,
    action: PartitionAction,
    named: &[NamedPartition],
    audit: &AuditContext,
) -> Result<Vec<PartitionChange>> {
    const DOING: &str = "adding partitions";
    let keys: BTreeSet<&PartitionKey> = named.iter().map(|named| &named.key).collect();
    let keys: Vec<&PartitionKey> = keys.into_iter().collect();
    let writes = writes_if_new(action, &keys, audit);
    let Some(first) = writes.first() else { return Ok(Vec::new()) };
    let units =
        each(&writes, |write| write.journal.first().and_then(|entry| entry.unit.as_deref()));
    let entry = first.journal.first();
    let request = first.after.work.as_ref().and_then(|work| work.request.as_ref());
    let columns = KeyColumns::of(&keys);
    let insert = bind!(
        queries::BACKFILL_PARTITIONS,
        unit => &units,
        at => &Micros(audit.by.at),
        kind => &request.map(|request| request.kind.name()),
        lane => &request.map(|request| request.lane.name()),
        actor => &audit.by.actor,
        action => &action.action(),
        filter => &entry.and_then(|entry| entry.filter.as_deref()),
        details => &entry.map(|entry| entry.details.as_str()),
        ..KeyColumns(columns)
    );
    let mut session = store.session(DOING).await?;
    let results = session.transaction_with(BEGIN_BACKFILL, &[insert]).await?;
    let rows = results.last().map(Vec::as_slice).unwrap_or_default();
    let created = read_created(rows, audit, DOING)?;
    if created.len() == named.len() {
        return Ok(vec![PartitionChange::Done(PartitionState::Absent); named.len()]);
    }
    let existing: Vec<&PartitionKey> =
        keys.into_iter().filter(|key| !created.contains_key(*key)).collect();
    let columns = KeyColumns::of(&existing);
    let rows = session.query(bind!(queries::PARTITIONS_BY_KEY, ..KeyColumns(columns))).await?;
    let found: Vec<PartitionRecord> = read_records(&rows, DOING)?;
    let found = found.into_iter().map(|record| (record.key.clone(), record)).collect();
    let changes = action.changes(named, found, created, audit);
    Ok(changes.into_iter().map(|(change, _)| change).collect())
}

/// The writes for partitions that have no entry.
fn writes_if_new(
    action: PartitionAction,
    keys: &[&PartitionKey],
    audit: &AuditContext,
) -> Vec<PartitionWrite> {
    let new =
        |key: &&PartitionKey| PartitionRecord::new(PartitionId(0), (*key).clone(), audit.by.at);
    let created = keys.iter().map(|key| ((*key).clone(), new(key))).collect();
    let named: Vec<NamedPartition> = keys.iter().map(|key| (*key).clone().into()).collect();
    let changes = action.changes(&named, HashMap::new(), created, audit);
    changes.into_iter().filter_map(|(_, write)| write).collect()
}
