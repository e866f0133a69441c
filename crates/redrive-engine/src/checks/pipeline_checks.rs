//! Reads pipeline runs and counts their samples.

use redrive_core::PipelineRunId;
use redrive_store::{PageLimit, PipelineRunRecord, Result, Selection, Store};

use crate::checks::{
    checker::{Finding, MAX_REREADS, Report},
    ledger_reader::PAGE,
    pipeline_invariants::{ActualSampleCounts, check_pipeline_run},
};

pub(crate) async fn check_pipeline_runs(store: &dyn Store, report: &mut Report) -> Result<()> {
    let mut before = PipelineRunId(i64::MAX);
    loop {
        let page = store
            .pipeline_runs_page(&Selection::default(), before, PageLimit::from(PAGE).newest_first())
            .await?;
        let Some(last) = page.last() else { return Ok(()) };
        before = last.id;
        for run in page {
            report.pipeline_runs += 1;
            report.add(check(store, run).await?);
        }
    }
}

/// Repeats the counts until the run does not change meanwhile. A sample that moves between stages is counted
/// once: the counts of all stages come from one query, and the total changes only together with the run.
async fn check(store: &dyn Store, mut run: PipelineRunRecord) -> Result<Vec<Finding>> {
    for _ in 0..MAX_REREADS {
        let filter = Selection { run: Some(run.id), ..Selection::default() };
        let counted = ActualSampleCounts {
            samples: store.count_samples(&filter).await?,
            stages: store.stage_counts(run.id).await?,
        };
        let Some(after) = store.pipeline_runs_by_id(&[run.id]).await?.pop() else { break };
        if after == run {
            return Ok(check_pipeline_run(&run, &counted));
        }
        run = after;
    }
    Ok(Vec::new())
}
