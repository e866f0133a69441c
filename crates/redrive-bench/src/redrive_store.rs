//! Redrive's store as the engine uses it, for comparison with the bare loops.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::SignedDuration;
use redrive_store::{
    Categories, ClaimRequest, ClaimedRun, NewRun, RunCompletion, RunFinish, Store, Verdict,
    WorkerId,
};

use crate::{
    error::{BenchError, failed},
    run_backend::{PAYLOAD, RunBackend, at},
};

const QUEUE: &str = "redrive";

pub(crate) struct RedriveStore {
    store: Arc<dyn Store>,
    payload: serde_json::Value,
    held: Vec<ClaimedRun>,
    worker: WorkerId,
}

impl RedriveStore {
    pub(crate) fn new(store: Arc<dyn Store>, worker: &WorkerId) -> Result<Self, BenchError> {
        let payload = serde_json::from_str(PAYLOAD).map_err(failed)?;
        Ok(Self { store, payload, held: Vec::new(), worker: worker.clone() })
    }
}

#[async_trait]
impl RunBackend for RedriveStore {
    async fn insert(&mut self, batch: usize) -> Result<(), BenchError> {
        let run = NewRun::new(QUEUE, &self.payload, at(0)).map_err(failed)?;
        self.store.submit_runs(&vec![run; batch], at(0)).await.map(drop).map_err(failed)
    }

    async fn claim(&mut self, batch: usize) -> Result<usize, BenchError> {
        let request = ClaimRequest {
            queue: QUEUE.to_owned(),
            categories: Categories::All,
            limit: u32::try_from(batch).unwrap_or(u32::MAX),
            owner: self.worker.clone(),
            lease_until: self.store.now() + SignedDuration::from_hours(1),
            now: at(1),
            gates: Default::default(),
        };
        let claimed = self.store.claim_runs(&request).await.map_err(failed)?;
        let count = claimed.len();
        self.held.extend(claimed);
        Ok(count)
    }

    async fn finish(&mut self, batch: usize) -> Result<usize, BenchError> {
        let from = self.held.len().saturating_sub(batch);
        let finish = |run: ClaimedRun| RunFinish {
            id: run.id,
            epoch: run.epoch,
            attempt: run.attempt,
            history: run.history,
            started_at: at(1),
            ended_at: at(2),
            worker: self.worker.clone(),
            completion: RunCompletion::Judged { verdict: Verdict::Passed, result: None },
            gates: None,
        };
        let finishes: Vec<RunFinish> = self.held.drain(from..).map(finish).collect();
        self.store.finish_runs(&finishes, at(2)).await.map(|written| written.len()).map_err(failed)
    }
}
