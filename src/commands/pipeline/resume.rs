//! `redrive pipeline resume`: continues a run.

use clap::Args;
use redrive::{HumanDuration, PipelineRunId, ResumeError};
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
Continues a run that was aborted, cancelled or interrupted, or whose dead letters were reprocessed. Finished samples
and finished stages are not repeated. The part of the source that was read must not have changed. Thresholds and the
failure budget are those of the current configuration, and the budget starts at zero.
Exit codes: as `pipeline run`; 4 if the source or the stages have changed, nothing was done.

Examples:
  redrive pipeline resume 3
  redrive pipeline resume 3 --detach        leave the work to `redrive worker`")]
pub(crate) struct PipelineResumeArgs {
    /// The id of the run
    #[arg(value_name = "ID", allow_negative_numbers = true, value_parser = parse_id)]
    id: PipelineRunId,

    /// Mark the run as running and exit; workers process it
    #[arg(long)]
    detach: bool,

    /// The time that running work has to finish after a signal
    #[arg(long, value_name = "DURATION", default_value = "10s", allow_hyphen_values = true)]
    grace: HumanDuration,

    /// The reason, for the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub(crate) async fn run(args: PipelineResumeArgs, context: &Context) -> Result<Exit, CommandError> {
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let name = ops.pipeline_run(args.id).await?.pipeline;
    let Some(config) = &ops.config else {
        let message = format!(
            "run {} needs a configuration, and there is no redrive.toml in this folder or above",
            args.id
        );
        return Err(CommandError::new(Exit::Error, message).help("--config FILE selects a file"));
    };
    let Some(declared) = config.pipeline(&name) else {
        let message = format!(
            "run {} belongs to pipeline {name:?}, which the configuration does not declare",
            args.id
        );
        return Err(CommandError::new(Exit::Error, message)
            .help("declare the pipeline again to resume the run"));
    };
    let runnable = RunnablePipeline::new(declared, config)?;
    let by = operator(args.reason);
    let resumed = ops.pipelines().resume(args.id, &runnable.pipeline, &by).await;
    let run = resumed.map_err(|refusal| command_error(refusal, &ops))?;
    if args.detach {
        print(&run, &ops, context).await?;
        return Ok(Exit::Ok);
    }
    if run.ended_at.is_some() {
        // All samples had ended already.
        print(&run, &ops, context).await?;
        return Ok(exit(run.progress.status));
    }
    runnable.process(&run, args.grace.into(), &ops, context).await
}

fn command_error(refusal: ResumeError, ops: &OpenStore) -> CommandError {
    let message = refusal.to_string();
    match refusal {
        ResumeError::Store(error) => ops.store_error(error),
        ResumeError::OtherStages { .. } => CommandError::new(Exit::Refused, message)
            .help("restore the stages to resume this run, or start a new run"),
        ResumeError::Source { why, .. } if why.code().to_string() == SOURCE_CHANGED => {
            CommandError::new(Exit::Refused, message)
        }
        ResumeError::Over { .. } => CommandError::new(Exit::Error, message)
            .help("`redrive dlq reprocess` returns its dead letters, if it has any"),
        _ => CommandError::new(Exit::Error, message),
    }
}
