//! Compares every accepted partition with its raw data (PAR-11).

use futures_util::{StreamExt, stream};
use redrive_core::{PartitionId, Unit};
use redrive_store::{PartitionRecord, Result, Store};

use crate::{
    checks::{
        checker::{Finding, Invariant, Report},
        ledger_reader::PAGE,
        unit_checks::check_units,
    },
    partitions::raw::RawSink,
};

/// Runs read concurrently.
const CONCURRENT_READS: usize = 4;

/// Checks every partition against its ledger, and verifies the raw data of every run that has authority. Writes
/// nothing. Memory use does not depend on the number of partitions.
pub async fn verify_partitions(store: &dyn Store, raw: &RawSink) -> Result<Report> {
    let mut report = Report::default();
    check_units::<PartitionRecord>(store, &mut report).await?;
    let mut after = PartitionId(0);
    loop {
        let page = store.partitions_by_id(after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(report) };
        after = last.id;
        let accepted = page.into_iter().filter(|partition| partition.current_run_id.is_some());
        let checks = accepted.map(|partition| async move { check(&partition, raw).await });
        let checked: Vec<Option<Finding>> =
            stream::iter(checks).buffered(CONCURRENT_READS).collect().await;
        report.raw_partitions += checked.len() as u64;
        report.add(checked.into_iter().flatten().collect());
    }
}

/// Verifies the raw data of some partitions, spread over the whole store. Writes nothing.
pub async fn verify_sample(store: &dyn Store, raw: &RawSink, size: u64) -> Result<Report> {
    let counts = store.partition_counts().await?;
    let partitions = counts.iter().map(|count| count.partitions).sum();
    let size = size.min(partitions);
    let mut report = Report { partitions, ..Report::default() };
    let mut last = PartitionId(0);
    for place in 0..size {
        // Ids are given one by one, so this spreads the sample evenly.
        let after = i64::try_from(partitions / size * place).unwrap_or(i64::MAX);
        let after = PartitionId(after.max(last.0));
        let Some(partition) = store.partitions_by_id(after, 1).await?.pop() else { break };
        last = partition.id;
        if partition.current_run_id.is_some() {
            report.raw_partitions += 1;
            report.add(check(&partition, raw).await.into_iter().collect());
        }
    }
    Ok(report)
}

async fn check(partition: &PartitionRecord, raw: &RawSink) -> Option<Finding> {
    let run_id = partition.current_run_id.as_ref()?;
    let problem = match raw.verify(&partition.key, run_id).await {
        Err(error) => error.in_words(),
        Ok(sealed) if Some(sealed.record_count) != partition.record_count => {
            let stored = partition.record_count.map_or("none".to_owned(), |n| n.to_string());
            format!(
                "record_count is {stored}, but run {run_id} has {} records",
                sealed.record_count
            )
        }
        Ok(_) => return None,
    };
    let unit = Unit::Partition(partition.key.clone()).to_string();
    Some(Finding { invariant: Invariant::RawData, unit, problem })
}
