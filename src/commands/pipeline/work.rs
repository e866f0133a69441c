//! Processes one run in this process, until the run ends or a signal arrives.

use std::{path::PathBuf, time::Duration};

use redrive::{
    Engine, Pipeline, PipelineRunRecord, PipelineStatus, Stopper, Until, build_pipeline,
    config::{self, Config},
    declared_gates,
};

use super::{
    progress::PipelineProgressDisplay,
    record::{exit, print},
};
use crate::{
    context::Context,
    exit::{CommandError, Exit},
    open_store::OpenStore,
    signals::Signals,
    worker_set::new_worker_id,
};

pub(super) struct RunnablePipeline<'a> {
    pub(super) pipeline: Pipeline,
    config: &'a Config,
    /// The source, for the progress display, if the source is a file.
    file: Option<PathBuf>,
}

impl<'a> RunnablePipeline<'a> {
    pub(super) fn new(
        declared: &config::PipelineConfig,
        config: &'a Config,
    ) -> Result<Self, CommandError> {
        let pipeline = build_pipeline(declared, &config.folder)
            .map_err(|error| CommandError::new(Exit::Error, "cannot start").caused_by(error))?;
        let file = match &declared.source {
            config::SampleSourceConfig::Jsonl(path) => Some(config.folder.join(path)),
            config::SampleSourceConfig::Exec(_) => None,
        };
        Ok(Self { pipeline, config, file })
    }

    /// Processes a run, and prints its status.
    pub(super) async fn process(
        self,
        run: &PipelineRunRecord,
        grace: Duration,
        ops: &OpenStore,
        context: &Context,
    ) -> Result<Exit, CommandError> {
        #[cfg(feature = "otel")]
        crate::spans::start(&ops.chosen, context).await?;
        let mut signals = Signals::new()?;
        let worker = new_worker_id()?;
        let mut pipeline = self.pipeline.of_run(run.id);
        pipeline.stages.iter_mut().for_each(|stage| stage.limits.grace = grace);
        let engine = Engine::new(ops.store().clone())
            .with_jitter_seed(self.config.jitter_seed)
            .with_traces(context.traces())
            .with_gates(declared_gates(self.config))
            .with_pipeline(pipeline);
        let progress = PipelineProgressDisplay::start(run, self.file, ops.store().clone(), context);
        let (stopper, stop) = Stopper::new();
        let mut work = Box::pin(engine.run_as(worker, stop, Until::Drained));
        let signal = tokio::select! {
            () = &mut work => None,
            exit = signals.next() => Some(exit),
        };
        if let Some(exit) = signal {
            stopper.stop();
            tracing::info!(
                "stopping: waiting for running work; units not finished in time are released"
            );
            // Dropping the future kills every handler that is still running.
            let again = tokio::select! {
                () = &mut work => None,
                again = signals.next() => Some(again),
            };
            if let Some(again) = again {
                progress.end();
                return Ok(note_unfinished(again, run, context));
            }
            progress.end();
            let run = ops.pipeline_run(run.id).await?;
            print(&run, ops, context).await?;
            return Ok(match run.progress.status {
                PipelineStatus::Running => note_unfinished(exit, &run, context),
                _ => exit,
            });
        }
        progress.end();
        let run = ops.pipeline_run(run.id).await?;
        print(&run, ops, context).await?;
        if run.progress.status == PipelineStatus::Running {
            note_unfinished(Exit::Error, &run, context);
        }
        Ok(exit(run.progress.status))
    }
}

/// Prints how to resume the run.
fn note_unfinished(exit: Exit, run: &PipelineRunRecord, context: &Context) -> Exit {
    let id = run.id;
    context
        .output
        .note(&format!("run {id} is not finished; `redrive pipeline resume {id}` continues it"));
    exit
}
