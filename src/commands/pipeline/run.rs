//! `redrive pipeline run`: starts a run of a pipeline and works on it.

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
Every sample of the source goes through the stages of the pipeline. This process works on this run alone;
other workers that serve the pipeline may help. Ctrl-C or SIGTERM: takes no more work, lets running work end
within the grace time, hands the rest back uncounted. `redrive pipeline resume ID` goes on, also after a kill.
Exit codes: 0 completed; 3 partial_success; 1 failed, aborted or cancelled; 130, 143 stopped by a signal.

Examples:
  redrive pipeline run score
  redrive pipeline run score -o json -q
  redrive pipeline run score --detach       leave it to `redrive worker`")]
pub(crate) struct PipelineRunArgs {
    /// The pipeline, as the configuration names it
    #[arg(value_name = "NAME")]
    pipeline: String,

    /// Start it and end at once: workers do the work
    #[arg(long)]
    detach: bool,

    /// How long running work may go on after a signal
    #[arg(long, value_name = "DURATION", default_value = "10s", allow_hyphen_values = true)]
    grace: HumanDuration,

    /// Why, for the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Runs `pipeline run`.
pub(crate) async fn run(args: PipelineRunArgs, context: &Context) -> Result<Exit, CommandError> {
    let name = &args.pipeline;
    let config = context.require_config()?;
    let Some(declared) = config.pipeline(name) else {
        let advice = match config.pipelines.as_slice() {
            [] => "the file declares none; add a [[pipeline]] with a source and stages".to_owned(),
            _ => config.pipeline_suggestion(name),
        };
        return Err(CommandError::usage(format!("there is no pipeline {name:?}")).help(advice));
    };
    let declared = RunnablePipeline::new(declared, &config)?;
    if !args.detach {
        // A worker elsewhere may have what is not here.
        let found = declared.pipeline.source.check(&SourcePosition::default()).await;
        found.map_err(|why| {
            let message = format!("the source cannot be read: {}", why.message());
            CommandError::new(Exit::Error, message).help("no run was started")
        })?;
    }
    let ops = OpenStore::open(context, IfMissing::Create).await?;
    let by = operator(args.reason);
    let id = ops.pipelines().start(&declared.pipeline, &by).await;
    let run = ops.pipeline_run(id.map_err(|error| ops.store_error(error))?).await?;
    if args.detach {
        print(&run, &ops, context).await?;
        context.output.note(&format!(
            "run {} is left to workers: `redrive worker --pipelines {name}` is one",
            run.id
        ));
        return Ok(Exit::Ok);
    }
    declared.work_on(&run, args.grace.into(), &ops, context).await
}
