//! Data for the server: a store with runs in every state, their attempts, and partitions.

use std::{sync::Arc, time::Duration};

use redrive::{Control, Decision, Failure, GiveUpReason};
use redrive_engine::{Clock, SystemClock};
use redrive_store::{
    Categories, ClaimRequest, ClaimedRun, NewRun, PartitionVerdict, RunCompletion, RunFinish,
    Store, Verdict, WorkerId,
};

use crate::{
    error::{BenchError, failed},
    partitions::{finish_all, grid, request},
    run_backend::PAYLOAD,
};

const QUEUES: [&str; 3] = ["invoices", "mail", "thumbnails"];

/// Runs that are submitted at a time, and how many of them are claimed and finished; the others stay ready.
const BATCH: usize = 1_000;
const FINISHED: u32 = 900;

/// Runs of each queue that a worker still holds in the end.
const HELD: u32 = 50;

/// Submits runs and finishes most of them, with all kinds of completions.
pub(crate) async fn fill_runs(
    store: &Arc<dyn Store>,
    count: usize,
    finish: impl Fn(ClaimedRun, &WorkerId) -> RunFinish,
) -> Result<(), BenchError> {
    let worker = WorkerId("bench".to_owned());
    let payload = serde_json::from_str(PAYLOAD).map_err(failed)?;
    for (batch, queue) in (0..count.div_ceil(BATCH)).zip(QUEUES.into_iter().cycle()) {
        let now = SystemClock.now();
        let run = NewRun::new(queue, &payload, now).map_err(failed)?;
        let runs = vec![run; BATCH.min(count - batch * BATCH)];
        store.submit_runs(&runs, now).await.map_err(failed)?;
        let finishes: Vec<RunFinish> = claim(store, queue, &worker, FINISHED)
            .await?
            .into_iter()
            .map(|claimed| finish(claimed, &worker))
            .collect();
        store.finish_runs(&finishes, now).await.map_err(failed)?;
    }
    for queue in QUEUES {
        claim(store, queue, &worker, HELD).await?;
    }
    Ok(())
}

async fn claim(
    store: &Arc<dyn Store>,
    queue: &str,
    worker: &WorkerId,
    limit: u32,
) -> Result<Vec<ClaimedRun>, BenchError> {
    let request = ClaimRequest {
        queue: queue.to_owned(),
        categories: Categories::All,
        limit,
        owner: worker.clone(),
        lease_until: store.now() + Duration::from_secs(3_600),
        now: SystemClock.now(),
        gates: Default::default(),
    };
    store.claim_runs(&request).await.map_err(failed)
}

/// Of twenty runs, 15 pass, one needs review, one fails, two are retried and one is given up.
pub(crate) fn finish(run: ClaimedRun, worker: &WorkerId) -> RunFinish {
    let now = SystemClock.now();
    let judged = |verdict| RunCompletion::Judged { verdict, result: None };
    let completion = match run.id.0.rem_euclid(20) {
        0 => judged(Verdict::NeedsReview),
        1 => judged(Verdict::Failed),
        2 | 3 => {
            let delay = Duration::from_secs(3_600 + run.id.0.unsigned_abs() % 3_600);
            let decision = Decision::RetryAt { at: now + delay, delay, counted: true };
            let failure = Failure::http(503, None, "the printer is away");
            RunCompletion::Failed { failure, decision }
        }
        4 => RunCompletion::Failed {
            failure: Failure::exit(65, "the address cannot be read"),
            decision: Decision::GiveUp { reason: GiveUpReason::Final },
        },
        _ => judged(Verdict::Passed),
    };
    RunFinish {
        id: run.id,
        epoch: run.epoch,
        attempt: run.attempt,
        history: run.history,
        started_at: now,
        ended_at: now,
        worker: worker.clone(),
        completion,
        gates: None,
    }
}

/// Of twenty partitions, 16 succeed, one fails, and three are pending.
pub(crate) async fn fill_partitions(control: &Control, count: usize) -> Result<(), BenchError> {
    let good = PartitionVerdict::Accepted { record_count: 100, schema_version: None };
    let bad = PartitionVerdict::Rejected { failure: Failure::exit(75, "no data yet") };
    for (source, share, verdict) in
        [("orders", 16, Some(good)), ("clicks", 1, Some(bad)), ("visits", 3, None)]
    {
        request(control, grid(source, 0, count * share / 20)?).await?;
        if let Some(verdict) = verdict {
            finish_all(control.store(), source, source, &verdict).await?;
        }
    }
    Ok(())
}
