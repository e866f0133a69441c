//! `redrive dlq list`: lists dead letters or their causes.

use clap::Args;
use redrive_ops::views::{DeadCauseView, SampleView};

use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    resource::{ListArgs, ListRow, list},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Dead letters are sorted by id. To get the next page, pass the last id to --after. --group lists the causes instead,
the most frequent first: errors that differ only in numbers, ids, quotations and paths are one cause.

Examples:
  redrive dlq list --group
  redrive dlq list --run 3 --stage llm_call
  redrive dlq list --newest --failed-since 2026-01-31T08:00:00Z
  redrive dlq list --error 'rate limit' -o json
  redrive dlq list --limit 10000 --after 10000 -o jsonl")]
pub(crate) struct DlqListArgs {
    #[command(flatten)]
    list: ListArgs<SampleView>,

    /// Group by cause and count the dead letters of each
    #[arg(long, conflicts_with = "after")]
    group: bool,

    /// Sort by the time of the last failure, the newest first; --failed-until selects the next page
    #[arg(long, conflicts_with_all = ["after", "group"])]
    newest: bool,
}

pub(crate) async fn run(args: DlqListArgs, context: &Context) -> Result<Exit, CommandError> {
    if !args.group && !args.newest {
        return list(args.list, false, context).await;
    }
    let (filter, limit) = (&args.list.terms.selection, args.list.limit);
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    if args.group {
        let causes = ops.store().dead_causes(filter, limit).await;
        let causes = causes.map_err(|error| ops.store_error(error))?;
        let is_full = causes.len() >= limit as usize;
        context.output.list(causes.into_iter().map(DeadCauseView::from))?;
        if is_full {
            context.output.footer("there may be more; raise --limit")?;
        }
        return Ok(Exit::Ok);
    }
    let newest = ops.store().newest_dead_samples(filter, limit).await;
    let newest = newest.map_err(|error| ops.store_error(error))?;
    let oldest = newest.last().and_then(|sample| sample.last_attempt_at);
    let oldest = oldest.filter(|_| newest.len() >= limit as usize);
    context.output.list(newest.into_iter().map(SampleView::from).map(ListRow))?;
    if let Some(oldest) = oldest {
        let footer = format!("there may be more; continue with --failed-until {oldest}");
        context.output.footer(&footer)?;
    }
    Ok(Exit::Ok)
}
