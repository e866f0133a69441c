//! The loops of a pipeline: one that reads sources, and one for each stage.

use std::{sync::Arc, time::Duration};

use redrive_retry::{Stop, Stopper};
use redrive_store::{Served, Store};
use tokio::task::JoinSet;

use super::{Pipeline, SourceReader, StageWork};
use crate::worker::{
    reaper::Reapers,
    reporter::WorkerReporter,
    unit_leases::WorkContext,
    worker_loop::{Until, WorkerLoop},
};

/// How long to wait for a wake before the next check whether a pipeline is drained.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The shortest time between two checks, however many wakes arrive.
const MIN_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The loops of one pipeline, before they run.
pub(crate) struct PipelineLoops {
    store: Arc<dyn Store>,
    served: Served,
    source_reader: WorkerLoop<SourceReader>,
    stages: Vec<WorkerLoop<StageWork>>,
}

impl PipelineLoops {
    pub(crate) fn new(
        pipeline: &Pipeline,
        context: &WorkContext,
        reapers: &mut Reapers,
        reporter: &mut WorkerReporter,
    ) -> Self {
        let source_reader = SourceReader::new(pipeline.clone(), context);
        let source_reader = WorkerLoop::new(Arc::new(source_reader), context.write_times.clone());
        source_reader.register(&mut reapers.sources);
        let stages = StageWork::each(pipeline, context).map(|stage| {
            let stage = WorkerLoop::new(Arc::new(stage), context.write_times.clone());
            stage.register(&mut reapers.samples);
            stage.report_to(reporter);
            stage
        });
        Self {
            store: context.store.clone(),
            served: pipeline.served(),
            stages: stages.collect(),
            source_reader,
        }
    }

    /// Runs all loops until stopped, or until nothing is left for any of them. They end together: a stage without work may
    /// get some as long as another stage is busy.
    pub(crate) async fn run(self, mut stop: Stop, until: Until) {
        let Self { store, served, source_reader, stages } = self;
        let (stopper, loops_stop) = Stopper::new();
        let mut loops = JoinSet::new();
        loops.spawn(source_reader.run(store.wakes(), loops_stop.clone(), Until::Stopped));
        for stage in stages {
            loops.spawn(stage.run(store.wakes(), loops_stop.clone(), Until::Stopped));
        }
        let mut drained = Box::pin(drained(store, served));
        loop {
            tokio::select! {
                biased;
                () = stop.stopped() => break,
                () = &mut drained, if until == Until::Drained => break,
                Some(ended) = loops.join_next() => log_panic(ended),
            }
        }
        stopper.stop();
        while let Some(ended) = loops.join_next().await {
            log_panic(ended);
        }
    }
}

/// Waits until nothing is left to do, now or later, here or elsewhere.
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
        tokio::time::sleep(MIN_CHECK_INTERVAL).await;
        tokio::select! {
            biased;
            Ok(()) = wakes.changed() => {}
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
        }
    }
}

fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(error = &error as &dyn std::error::Error, "a worker loop panicked");
    }
}
