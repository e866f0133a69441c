//! Asking for partitions that are not there yet, as fast as rows can be written.
//!
//! Nothing is to be decided about a partition without an entry, so nothing is locked or read before: one
//! statement makes the entries, the work and the rows of the journal, in one round trip. What was there
//! already stays as it is, and is looked at only to say how it is.

use std::collections::{BTreeSet, HashMap};

use crate::{
    PostgresStore,
    batch::each,
    bound_query::bind,
    columns::{Micros, read_rows},
    partition_columns::{KeyColumns, read_key, read_partition},
    queries,
};
use redrive_core::{PartitionId, PartitionKey, PartitionState};
use redrive_store::{
    AuditContext, NamedPartition, PartitionAction, PartitionChange, PartitionRecord,
    PartitionWrite, Result,
};

/// Begins the transaction of a backfill. Its rows are many and the join is by text: the settings that keep
/// other statements on their indexes would compare every row with every other.
pub const BY_HASH: &str = "BEGIN; SET LOCAL enable_hashjoin = on; SET LOCAL enable_nestloop = off";

/// Makes entries where there are none, and says what became of each key that is named.
pub(crate) async fn backfill(
    store: &PostgresStore,
    action: PartitionAction,
    named: &[NamedPartition],
    order: &AuditContext,
) -> Result<Vec<PartitionChange>> {
    const DOING: &str = "adding partitions";
    let keys: BTreeSet<&PartitionKey> = named.iter().map(|named| &named.key).collect();
    let keys: Vec<&PartitionKey> = keys.into_iter().collect();
    let writes = as_if_new(action, &keys, order);
    let Some(first) = writes.first() else { return Ok(Vec::new()) };
    let units =
        each(&writes, |write| write.journal.first().and_then(|entry| entry.unit.as_deref()));
    let entry = first.journal.first();
    let request = first.after.work.as_ref().and_then(|work| work.request.as_ref());
    let columns = KeyColumns::of(&keys);
    let insert = bind!(
        queries::BACKFILL_PARTITIONS,
        unit => &units,
        at => &Micros(order.by.at),
        kind => &request.map(|request| request.kind.name()),
        lane => &request.map(|request| request.lane.name()),
        actor => &order.by.actor,
        action => &action.action(),
        filter => &entry.and_then(|entry| entry.filter.as_deref()),
        details => &entry.map(|entry| entry.details.as_str()),
        ..KeyColumns(columns)
    );
    let mut session = store.session(DOING).await?;
    let answers = session.transaction_begun_by(BY_HASH, &[insert]).await?;
    let rows = answers.last().map(Vec::as_slice).unwrap_or_default();
    let made: HashMap<PartitionKey, PartitionRecord> = read_rows(rows, DOING, |row| {
        let (id, key) = (PartitionId(row.get()?), read_key(row)?);
        Ok((key.clone(), PartitionRecord::new(id, key, order.by.at)))
    })?
    .into_iter()
    .collect();
    if made.len() == named.len() {
        return Ok(vec![PartitionChange::Done(PartitionState::Absent); named.len()]);
    }
    let there: Vec<&PartitionKey> =
        keys.into_iter().filter(|key| !made.contains_key(*key)).collect();
    let columns = KeyColumns::of(&there);
    let rows = session.query(bind!(queries::PARTITIONS_BY_KEY, ..KeyColumns(columns))).await?;
    let found = read_rows(&rows, DOING, read_partition)?;
    let found = found.into_iter().map(|record| (record.key.clone(), record)).collect();
    let changes = action.changes(named, found, made, order);
    Ok(changes.into_iter().map(|(change, _)| change).collect())
}

/// What is written of each, if there is no entry.
fn as_if_new(
    action: PartitionAction,
    keys: &[&PartitionKey],
    order: &AuditContext,
) -> Vec<PartitionWrite> {
    let new =
        |key: &&PartitionKey| PartitionRecord::new(PartitionId(0), (*key).clone(), order.by.at);
    let made = keys.iter().map(|key| ((*key).clone(), new(key))).collect();
    let named: Vec<NamedPartition> = keys.iter().map(|key| (*key).clone().into()).collect();
    let changes = action.changes(&named, HashMap::new(), made, order);
    changes.into_iter().filter_map(|(_, write)| write).collect()
}
