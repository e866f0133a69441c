//! `redrive pipeline list`: lists runs.

use clap::Args;
use redrive::{PipelineRunFilter, PipelineRunId, PipelineStatus};
use redrive_ops::views::PipelineRunView;
use redrive_store::MAX_PAGE;

use super::{parse_status, record::PipelineRunListRow};
use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Runs are sorted from new to old. To get the next page, pass the last id to --after. A + after the total means
that the source was not read to its end yet.

Examples:
  redrive pipeline list
  redrive pipeline list --pipeline score --status aborted
  redrive pipeline list -o json | jq '.[0].id'")]
pub(crate) struct PipelineListArgs {
    /// Only this pipeline
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,

    /// Only this status: running, completed, partial_success, failed, aborted, cancelled
    #[arg(long, value_name = "STATUS", value_parser = parse_status)]
    status: Option<PipelineStatus>,

    /// The most rows to print, up to 10000
    #[arg(long, value_name = "N", default_value_t = 100, allow_hyphen_values = true,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_PAGE)))]
    limit: u32,

    /// Start after this id: print older runs only
    #[arg(long, value_name = "ID", allow_hyphen_values = true,
          value_parser = clap::value_parser!(i64).range(1..))]
    after: Option<i64>,
}

pub(crate) async fn run(args: PipelineListArgs, context: &Context) -> Result<Exit, CommandError> {
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let filter = PipelineRunFilter { pipeline: args.pipeline, status: args.status };
    let before = PipelineRunId(args.after.unwrap_or(i64::MAX));
    let page = ops.store().pipeline_runs_page(&filter, before, args.limit).await;
    let page = page.map_err(|error| ops.store_error(error))?;
    context.output.list(page.iter().map(PipelineRunView::from).map(PipelineRunListRow))?;
    if let Some(last) = page.last().filter(|_| page.len() >= args.limit as usize) {
        context.output.footer(&format!("there may be more; continue with --after {}", last.id))?;
    }
    Ok(Exit::Ok)
}
