//! `redrive pipeline cancel`: cancels a run.

use clap::Args;
use redrive::{PipelineChange, PipelineRunId};

use super::record::print;
use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    operator::operator,
};
use redrive_ops::{Resource, views::PipelineRunView};

#[derive(Debug, Args)]
#[command(after_help = "\
Workers stop reading the source and claiming samples; attempts in progress finish, and their results are kept. The
other samples stay pending, and `redrive pipeline resume ID` continues with them. A run that ended or was cancelled
before is not changed (exit code 1).

Examples:
  redrive pipeline cancel 3 --reason 'wrong prompts'")]
pub(crate) struct PipelineCancelArgs {
    /// The id of the run
    #[arg(value_name = "ID", allow_negative_numbers = true, value_parser = PipelineRunView::parse_id)]
    id: PipelineRunId,

    /// The reason, for the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

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
