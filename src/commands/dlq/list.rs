//! `redrive dlq list`: lists dead letters or their causes.

use clap::Args;
use redrive::{SampleId, SamplePages};
use redrive_ops::views::{CauseView, SampleView};
use redrive_store::MAX_PAGE;

use super::{dead_letter_filter::DeadLetterFilter, record::SampleListRow};
use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    output::Listing,
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
    filter: DeadLetterFilter,

    /// Group by cause and count the dead letters of each
    #[arg(long, conflicts_with = "after")]
    group: bool,

    /// Sort by the time of the last failure, the newest first; --failed-until selects the next page
    #[arg(long, conflicts_with_all = ["after", "group"])]
    newest: bool,

    /// The most rows to print, up to 10000
    #[arg(long, value_name = "N", default_value_t = 100, allow_hyphen_values = true,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_PAGE)))]
    limit: u32,

    /// Start after this id
    #[arg(long, value_name = "ID", default_value_t = 0, allow_hyphen_values = true,
          value_parser = clap::value_parser!(i64).range(0..))]
    after: i64,
}

pub(crate) async fn run(args: DlqListArgs, context: &Context) -> Result<Exit, CommandError> {
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let filter = args.filter.sample_filter();
    if args.group {
        let causes = ops.store().dead_causes(&filter, args.limit).await;
        let causes = causes.map_err(|error| ops.store_error(error))?;
        let is_full = causes.len() >= args.limit as usize;
        context.output.list(causes.into_iter().map(CauseView::from))?;
        if is_full {
            context.output.footer("there may be more; raise --limit")?;
        }
        return Ok(Exit::Ok);
    }
    if args.newest {
        let newest = ops.store().newest_dead_samples(&filter, args.limit).await;
        let newest = newest.map_err(|error| ops.store_error(error))?;
        let oldest = newest.last().and_then(|sample| sample.last_attempt_at);
        let oldest = oldest.filter(|_| newest.len() >= args.limit as usize);
        let rows = newest.into_iter().map(SampleView::from).map(SampleView::without_data);
        context.output.list(rows.map(SampleListRow))?;
        if let Some(oldest) = oldest {
            let footer = format!("there may be more; continue with --failed-until {oldest}");
            context.output.footer(&footer)?;
        }
        return Ok(Exit::Ok);
    }
    let mut pages = SamplePages::new(ops.store().clone(), filter)
        .after(SampleId(args.after))
        .with_limit(args.limit.into())
        .without_data();
    let (mut listing, mut count, mut last) = (Listing::new(context.output), 0, None);
    loop {
        let page = pages.next().await.map_err(|error| ops.store_error(error))?;
        let Some(id) = page.last().map(|sample| sample.id) else { break };
        last = Some(id);
        count += page.len();
        let rows = page.into_iter().map(SampleView::from).map(SampleView::without_data);
        listing.add(rows.map(SampleListRow))?;
    }
    let hidden = listing.end()?;
    if hidden > 0 {
        context.output.footer(&format!("{hidden} rows are not shown; -o jsonl prints all"))?;
    }
    if let Some(last) = last.filter(|_| count >= args.limit as usize) {
        context.output.footer(&format!("there may be more; continue with --after {last}"))?;
    }
    Ok(Exit::Ok)
}
