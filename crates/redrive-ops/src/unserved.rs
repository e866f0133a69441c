//! Unfinished units that no worker takes, because the configuration does not declare or not accept them.

use std::collections::BTreeMap;

use redrive_core::{
    ItemId, ItemStatus, PartitionStatus, PipelineRunId, PipelineStatus, RunId, RunState,
};
use redrive_store::{MAX_PAGE, PageLimit, PartitionCount, Result, Selection, Store};

use crate::{Declarations, DeclaredQueue};

/// One sentence for each place.
pub(crate) async fn unserved(store: &dyn Store, declared: &Declarations) -> Result<Vec<String>> {
    let undeclared =
        |units: String| format!("{units}, which no worker of this configuration serves");
    let mut places = Vec::new();
    for stats in store.queue_stats().await? {
        let is_open = |state: RunState| {
            matches!(state, RunState::Discovered | RunState::Processing | RunState::WaitingForRetry)
        };
        let open: u64 =
            stats.runs.iter().filter(|(state, _)| is_open(*state)).map(|(_, n)| n).sum();
        match declared.queue(&stats.queue) {
            _ if open == 0 => {}
            None => places.push(undeclared(runs_in_words(open, &stats.queue))),
            Some(queue) => places.extend(refused_categories(store, queue).await?),
        }
    }
    for count in store.partition_counts().await? {
        let PartitionCount { source, status, partitions } = count;
        if status == PartitionStatus::Pending && declared.source(&source).is_none() {
            places.push(undeclared(partitions_in_words(partitions, &source)));
        }
    }
    for (upload, items) in undeclared_items(store, declared).await? {
        let units = format!("{} of upload {upload:?}", counted(items, "pending item"));
        places.push(format!("{units}, which the configuration does not declare"));
    }
    places.extend(samples(store, declared).await?.into_iter().map(undeclared));
    Ok(places)
}

fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

pub(crate) fn runs_in_words(runs: u64, queue: &str) -> String {
    format!("{} in queue {queue:?}", counted(runs, "run"))
}

pub(crate) fn partitions_in_words(partitions: u64, source: &str) -> String {
    format!("{} of source {source:?}", counted(partitions, "pending partition"))
}

pub(crate) fn samples_in_words(samples: u64, run: PipelineRunId, pipeline: &str) -> String {
    format!("{} of run {run} of pipeline {pipeline:?}", counted(samples, "sample"))
}

/// Runs whose category their queue does not accept.
async fn refused_categories(store: &dyn Store, queue: &DeclaredQueue) -> Result<Vec<String>> {
    let Some(accepted) = &queue.categories else { return Ok(Vec::new()) };
    let mut refused: BTreeMap<String, u64> = BTreeMap::new();
    for state in [RunState::Discovered, RunState::WaitingForRetry] {
        let filter = Selection {
            queue: Some(queue.name.clone()),
            state: Some(state.into()),
            ..Selection::default()
        };
        let mut after = RunId(0);
        loop {
            let page = store.runs_page(&filter, after, MAX_PAGE.into()).await?;
            let Some(last) = page.last() else { break };
            after = last.id;
            for run in page.into_iter().filter(|run| !accepted.contains(&run.category)) {
                *refused.entry(run.category).or_default() += 1;
            }
        }
    }
    let name = &queue.name;
    let place = |(category, runs): (String, u64)| {
        format!(
            "{} of category {category:?} in queue {name:?}, which the queue does not accept",
            counted(runs, "run")
        )
    };
    Ok(refused.into_iter().map(place).collect())
}

async fn undeclared_items(
    store: &dyn Store,
    declared: &Declarations,
) -> Result<BTreeMap<String, u64>> {
    let filter = Selection { state: Some(ItemStatus::Pending.into()), ..Selection::default() };
    let (mut uploads, mut after) = (BTreeMap::new(), ItemId(0));
    loop {
        let page = store.items_page(&filter, after, MAX_PAGE.into()).await?;
        let Some(last) = page.last() else { return Ok(uploads) };
        after = last.id;
        for item in page.into_iter().filter(|it| declared.upload(&it.group.upload).is_none()) {
            *uploads.entry(item.group.upload).or_default() += 1;
        }
    }
}

async fn samples(store: &dyn Store, declared: &Declarations) -> Result<Vec<String>> {
    let filter = Selection { state: Some(PipelineStatus::Running.into()), ..Selection::default() };
    let (mut places, mut before) = (Vec::new(), PipelineRunId(i64::MAX));
    loop {
        let page = store
            .pipeline_runs_page(&filter, before, PageLimit::from(MAX_PAGE).newest_first())
            .await?;
        let Some(last) = page.last() else { return Ok(places) };
        before = last.id;
        for run in &page {
            let pending = run.progress.counts.pending();
            let of_run = samples_in_words(pending, run.id, &run.pipeline);
            match declared.pipeline(&run.pipeline) {
                None => places.push(of_run),
                Some(now) if !now.stages.iter().map(|(name, _)| name).eq(&run.stages) => {
                    places.push(format!("{of_run} with other stages than the configuration's"));
                }
                Some(_) => {}
            }
        }
    }
}
