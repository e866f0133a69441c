//! `redrive pipeline resume`: goes on with a run.

use clap::Args;
use redrive::{HumanDuration, NotResumed, PipelineRunId};
use redrive_engine::SOURCE_CHANGED;

use super::{
    parse_id,
    record::{exit, print},
    work::RunnablePipeline,
};
use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    operator::operator,
};

#[derive(Debug, Args)]
#[command(after_help = "\
For a run that was aborted, cancelled or interrupted, or whose dead letters were brought back. Finished samples and
finished stages are never done again. The source must be what it was, as far as it was read; thresholds and the
failure budget are those that the configuration has now, and the budget counts afresh.
Exit codes: as `pipeline run`; 4 if the source or the stages have changed, and nothing was done.

Examples:
  redrive pipeline resume 3
  redrive pipeline resume 3 --detach        leave it to `redrive worker`")]
pub(crate) struct PipelineResumeArgs {
    /// The run
    #[arg(value_name = "ID", allow_negative_numbers = true, value_parser = parse_id)]
    id: PipelineRunId,

    /// Let it go on and end at once: workers do the work
    #[arg(long)]
    detach: bool,

    /// How long running work may go on after a signal
    #[arg(long, value_name = "DURATION", default_value = "10s", allow_hyphen_values = true)]
    grace: HumanDuration,

    /// Why, for the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Runs `pipeline resume`.
pub(crate) async fn run(args: PipelineResumeArgs, context: &Context) -> Result<Exit, CommandError> {
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let name = ops.pipeline_run(args.id).await?.pipeline;
    let Some(config) = &ops.config else {
        let message = format!("there is no configuration here, and run {} needs one", args.id);
        return Err(CommandError::new(Exit::Error, message).help("`--config FILE` names one"));
    };
    let Some(declared) = config.pipeline(&name) else {
        let message = format!(
            "run {} is one of pipeline {name:?}, which the configuration does not declare",
            args.id
        );
        return Err(CommandError::new(Exit::Error, message).help("declare it again to go on"));
    };
    let declared = RunnablePipeline::new(declared, config)?;
    let by = operator(args.reason);
    let resumed = ops.pipelines().resume(args.id, &declared.pipeline, &by).await;
    let run = resumed.map_err(|refusal| command_error(refusal, &ops))?;
    if args.detach {
        print(&run, &ops, context).await?;
        return Ok(Exit::Ok);
    }
    if run.ended_at.is_some() {
        // Nothing was left to do.
        print(&run, &ops, context).await?;
        return Ok(exit(run.progress.status));
    }
    declared.work_on(&run, args.grace.into(), &ops, context).await
}

fn command_error(refusal: NotResumed, ops: &OpenStore) -> CommandError {
    let message = refusal.to_string();
    match refusal {
        NotResumed::Store(error) => ops.store_error(error),
        NotResumed::OtherStages { .. } => CommandError::new(Exit::Refused, message)
            .help("put the stages back to go on with this run, or start a new one"),
        NotResumed::Source { why, .. } if why.code().to_string() == SOURCE_CHANGED => {
            CommandError::new(Exit::Refused, message)
        }
        NotResumed::Over { .. } => CommandError::new(Exit::Error, message)
            .help("`redrive dlq reprocess` brings its dead letters back, if it has any"),
        _ => CommandError::new(Exit::Error, message),
    }
}
