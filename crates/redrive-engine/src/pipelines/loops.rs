//! The loops of a pipeline: one that reads sources, and one for each stage.

use std::{sync::Arc, time::Duration};

use redrive_core::JitterSeed;
use redrive_store::{Served, Store, WorkerId};
use tokio::task::JoinSet;

use super::{Pipeline, SourceReader, StageWork};
use crate::{
    traces::Traces,
    worker::worker_loop::{Until, run_worker},
};
use redrive_retry::{Clock, Stop, Stopper};

/// How often to look whether anything is left, if nothing says so before, and how often at most.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_AWAY: Duration = Duration::from_millis(50);

/// Who serves a pipeline, and with what.
pub(crate) struct PipelineLoops {
    pub(crate) pipeline: Pipeline,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) worker: WorkerId,
    pub(crate) jitter_seed: JitterSeed,
    pub(crate) traces: Traces,
}

impl PipelineLoops {
    /// Runs all loops until told to stop, or until nothing is left for any of them. They end together: a
    /// stage that had nothing to do for a moment may have again, as long as another goes on.
    pub(crate) async fn run(self, mut stop: Stop, until: Until) {
        let (stopper, own_stop) = Stopper::new();
        let mut loops = self.spawn(&own_stop);
        let mut drained = Box::pin(drained(self.store.clone(), self.pipeline.served()));
        loop {
            tokio::select! {
                biased;
                () = stop.stopped() => break,
                () = &mut drained, if until == Until::Drained => break,
                Some(ended) = loops.join_next() => say_if_broken(ended),
            }
        }
        stopper.stop();
        while let Some(ended) = loops.join_next().await {
            say_if_broken(ended);
        }
    }

    fn spawn(&self, stop: &Stop) -> JoinSet<()> {
        let Self { pipeline, store, clock, worker, jitter_seed, traces } = self;
        let feed = SourceReader {
            pipeline: pipeline.clone(),
            store: store.clone(),
            clock: clock.clone(),
            worker: worker.clone(),
        };
        let mut loops = JoinSet::new();
        let until = Until::Stopped;
        loops.spawn(run_worker(Arc::new(feed), store.wakes(), stop.clone(), until));
        for stage in StageWork::each(pipeline, store, clock, worker, *jitter_seed, traces) {
            loops.spawn(run_worker(Arc::new(stage), store.wakes(), stop.clone(), until));
        }
        loops
    }
}

/// Until there is nothing left to do, now or later, here or elsewhere.
async fn drained(store: Arc<dyn Store>, served: Served) {
    let mut wakes = store.wakes();
    loop {
        if let Ok(backlog) = store.pipeline_backlog(&served).await
            && !backlog.ready
            && !backlog.held
            && backlog.next_due.is_none()
        {
            return;
        }
        tokio::time::sleep(LOOK_AWAY).await;
        tokio::select! {
            biased;
            Ok(()) = wakes.changed() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

fn say_if_broken(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(error = &error as &dyn std::error::Error, "a worker loop ended");
    }
}
