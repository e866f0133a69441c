//! `redrive runs list`: lists runs.

use clap::Args;
use redrive::{RunId, RunStatus};
use redrive_ops::views::RunView;
use redrive_store::{MAX_PAGE, PageLimit, RunFilter};

use super::{parse_status, record::RunListRow};
use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    output::Listing,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Runs are sorted by id. To get the next page, pass the last id to --after.

Examples:
  redrive runs list
  redrive runs list --queue verify --status error
  redrive runs list --limit 10000 --after 10000 -o jsonl")]
pub(crate) struct RunsListArgs {
    /// Only this queue
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,

    /// Only this category
    #[arg(long, value_name = "NAME")]
    category: Option<String>,

    /// Only this status: discovered, processing, passed, needs_review, failed, error, cancelled
    #[arg(long, value_name = "STATUS", value_parser = parse_status)]
    status: Option<RunStatus>,

    /// The most rows to print, up to 10000
    #[arg(long, value_name = "N", default_value_t = 100, allow_hyphen_values = true,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_PAGE)))]
    limit: u32,

    /// Start after this id
    #[arg(long, value_name = "ID", default_value_t = 0, allow_hyphen_values = true,
          value_parser = clap::value_parser!(i64).range(0..))]
    after: i64,
}

pub(crate) async fn run(args: RunsListArgs, context: &Context) -> Result<Exit, CommandError> {
    let config = context.config()?;
    let chosen = context.store(config.as_ref())?;
    let store = chosen.open(config.as_ref(), IfMissing::Refuse).await?;
    let filter = RunFilter { queue: args.queue, category: args.category, status: args.status };
    let (mut after, mut left) = (RunId(args.after), args.limit);
    let mut listing = Listing::new(context.output);
    let last = loop {
        // A table has no payloads.
        let limit = PageLimit { with_data: !context.output.is_table(), ..PageLimit::from(left) };
        let page = store.runs_page(&filter, after, limit).await;
        let page = page.map_err(|error| chosen.store_error(error))?;
        let is_reached = limit.is_reached(&page);
        after = page.last().map_or(after, |run| run.id);
        left -= left.min(page.len() as u32);
        listing.add(page.into_iter().map(RunView::from).map(RunListRow))?;
        if !is_reached || left == 0 {
            break (left == 0).then_some(after);
        }
    };
    let hidden = listing.end()?;
    if hidden > 0 {
        context.output.footer(&format!("{hidden} rows are not shown; -o jsonl prints all"))?;
    }
    if let Some(last) = last {
        context.output.footer(&format!("there may be more; continue with --after {last}"))?;
    }
    Ok(Exit::Ok)
}
