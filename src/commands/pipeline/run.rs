//! `redrive pipeline run`: starts a run of a pipeline and processes it.

use clap::Args;
use redrive::{HumanDuration, SourcePosition};

use super::{record::print, work::RunnablePipeline};
use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    operator::operator,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Sends every sample of the source through the stages of the pipeline. This process works on this run only; other
workers of the pipeline may process samples of the run too. On Ctrl-C or SIGTERM the process claims no more samples,
waits for running work within the grace time, and releases the other samples uncounted. `redrive pipeline resume ID`
continues the run, also after a crash.
Exit codes: 0 completed; 3 partial_success; 1 failed, aborted or cancelled; 130, 143 stopped by a signal.

Examples:
  redrive pipeline run score
  redrive pipeline run score -o json -q
  redrive pipeline run score --detach       leave the work to `redrive worker`")]
pub(crate) struct PipelineRunArgs {
    /// The name of a declared pipeline
    #[arg(value_name = "NAME")]
    pipeline: String,

    /// Start the run and exit; workers process it
    #[arg(long)]
    detach: bool,

    /// The time that running work has to finish after a signal
    #[arg(long, value_name = "DURATION", default_value = "10s", allow_hyphen_values = true)]
    grace: HumanDuration,

    /// The reason, for the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub(crate) async fn run(args: PipelineRunArgs, context: &Context) -> Result<Exit, CommandError> {
    let name = &args.pipeline;
    let config = context.require_config()?;
    let Some(declared) = config.pipeline(name) else {
        let help = match config.pipelines.as_slice() {
            [] => "the configuration declares no pipelines; add a [[pipeline]] with a source and stages".to_owned(),
            _ => config.pipeline_suggestion(name),
        };
        return Err(CommandError::usage(format!("there is no pipeline {name:?}")).help(help));
    };
    let runnable = RunnablePipeline::new(declared, &config)?;
    if !args.detach {
        // With --detach, the source need only exist on the host of the worker.
        let found = runnable.pipeline.source.check(&SourcePosition::default()).await;
        found.map_err(|why| {
            let message = format!("cannot read the source: {}", why.message());
            CommandError::new(Exit::Error, message).help("no run was started")
        })?;
    }
    let ops = OpenStore::open(context, IfMissing::Create).await?;
    let by = operator(args.reason);
    let id = ops.pipelines().start(&runnable.pipeline, &by).await;
    let run = ops.pipeline_run(id.map_err(|error| ops.store_error(error))?).await?;
    if args.detach {
        print(&run, &ops, context).await?;
        context.output.note(&format!(
            "run {} waits for workers; start one with `redrive worker --pipelines {name}`",
            run.id
        ));
        return Ok(Exit::Ok);
    }
    runnable.process(&run, args.grace.into(), &ops, context).await
}
