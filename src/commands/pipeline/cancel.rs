//! `redrive pipeline cancel`: stops a run.

use clap::Args;
use redrive::{PipelineChange, PipelineRunId};

use super::{parse_id, record::print};
use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    operator::operator,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Nothing more is read or claimed; what is running may end, and is kept. What was not done stays pending, and
`redrive pipeline resume ID` goes on from there. A run that is over, or cancelled already, is left alone (exit 1).

Examples:
  redrive pipeline cancel 3 --reason 'wrong prompts'")]
pub(crate) struct PipelineCancelArgs {
    /// The run
    #[arg(value_name = "ID", allow_negative_numbers = true, value_parser = parse_id)]
    id: PipelineRunId,

    /// Why, for the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Runs `pipeline cancel`.
pub(crate) async fn run(args: PipelineCancelArgs, context: &Context) -> Result<Exit, CommandError> {
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let run = ops.pipeline_run(args.id).await?;
    let change = ops.pipelines().cancel(run.id, &operator(args.reason)).await;
    match change.map_err(|error| ops.store_error(error))? {
        PipelineChange::Done(_) => print(&ops.pipeline_run(run.id).await?, &ops, context).await?,
        PipelineChange::Refused(status) => {
            let message = format!("pipeline run {} is {status}; nothing was changed", run.id);
            return Err(CommandError::new(Exit::Error, message));
        }
        PipelineChange::Unknown => {
            return Err(CommandError::new(
                Exit::Error,
                format!("there is no pipeline run {}", run.id),
            ));
        }
    }
    Ok(Exit::Ok)
}
