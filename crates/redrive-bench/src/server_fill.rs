//! A store as it is after a while: runs in every state with their attempts, and partitions.

use std::{sync::Arc, time::Duration};

use redrive::{Control, Decision, Failure as UnitFailure, GiveUpReason};
use redrive_engine::{Clock, SystemClock};
use redrive_store::{
    Categories, ClaimRequest, ClaimedRun, NewRun, PartitionVerdict, RunCompletion, RunFinish, Store,
    Verdict, WorkerId,
};

use super::{
    contender::{PAYLOAD, failed},
    partitions::{ask, grid, judge},
};
use crate::exit::Failure;

/// Where runs are.
const QUEUES: [&str; 3] = ["invoices", "mail", "thumbnails"];

/// Runs that are written at a time, and how many of them are worked on: the others wait.
const BATCH: usize = 1_000;
const WORKED_ON: u32 = 900;

/// Runs that are with a worker in the end.
const HELD: u32 = 50;

/// Puts runs into queues and has most of them done, well or badly.
pub(super) async fn fill_runs(store: &Arc<dyn Store>, count: usize) -> Result<(), Failure> {
    let worker = WorkerId("bench".to_owned());
    let payload = serde_json::from_str(PAYLOAD).map_err(failed)?;
    for (batch, queue) in (0..count.div_ceil(BATCH)).zip(QUEUES.into_iter().cycle()) {
        let now = SystemClock.now();
        let run = NewRun::new(queue, &payload, now).map_err(failed)?;
        let runs = vec![run; BATCH.min(count - batch * BATCH)];
        store.submit_runs(&runs, now).await.map_err(failed)?;
        let finishes: Vec<RunFinish> = claim(store, queue, &worker, WORKED_ON)
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
) -> Result<Vec<ClaimedRun>, Failure> {
    let request = ClaimRequest {
        queue: queue.to_owned(),
        categories: Categories::All,
        limit,
        owner: worker.clone(),
        lease_until: store.now() + Duration::from_secs(3_600),
        now: SystemClock.now(),
    };
    store.claim_runs(&request).await.map_err(failed)
}

/// The end of a run: of twenty 15 are good, one is to be looked at, one is bad, two are tried again and one is
/// given up.
fn finish(run: ClaimedRun, worker: &WorkerId) -> RunFinish {
    let now = SystemClock.now();
    let judged = |verdict| RunCompletion::Judged { verdict, result: None };
    let completion = match run.id.0.rem_euclid(20) {
        0 => judged(Verdict::NeedsReview),
        1 => judged(Verdict::Failed),
        2 | 3 => {
            let delay = Duration::from_secs(3_600 + run.id.0.unsigned_abs() % 3_600);
            let decision = Decision::RetryAt { at: now + delay, delay, counted: true };
            let failure = UnitFailure::http(503, None, "the printer is away");
            RunCompletion::Failed { failure, decision }
        }
        4 => RunCompletion::Failed {
            failure: UnitFailure::exit(65, "the address cannot be read"),
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
    }
}

/// Makes partitions: of twenty 16 are good, one failed, and three wait.
pub(super) async fn fill_partitions(control: &Control, count: usize) -> Result<(), Failure> {
    let good = PartitionVerdict::Accepted { record_count: 100, schema_version: None };
    let bad = PartitionVerdict::Rejected { failure: UnitFailure::exit(75, "no data yet") };
    for (source, share, verdict) in
        [("orders", 16, Some(good)), ("clicks", 1, Some(bad)), ("visits", 3, None)]
    {
        ask(control, grid(source, 0, count * share / 20)?).await?;
        if let Some(verdict) = verdict {
            judge(control.store(), source, source, &verdict).await?;
        }
    }
    Ok(())
}
