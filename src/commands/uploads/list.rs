//! `redrive uploads list`: lists items.

use clap::Args;
use redrive::{ItemId, ItemStatus};
use redrive_ops::views::ItemView;
use redrive_store::{ItemFilter, MAX_PAGE};

use super::{parse_status, record::ItemListRow};
use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Items are sorted by id. To get the next page, pass the last id to --after.

Examples:
  redrive uploads list --group flight-7
  redrive uploads list --upload tiles --status upload_giveup
  redrive uploads list --limit 10000 --after 10000 -o jsonl")]
pub(crate) struct UploadsListArgs {
    /// Only this upload
    #[arg(long, value_name = "NAME")]
    upload: Option<String>,

    /// Only this group
    #[arg(long, value_name = "NAME")]
    group: Option<String>,

    /// Only this status: pending, uploaded, trusted, rejected, upload_giveup
    #[arg(long, value_name = "STATUS", value_parser = parse_status)]
    status: Option<ItemStatus>,

    /// The most rows to print, up to 10000
    #[arg(long, value_name = "N", default_value_t = 100, allow_hyphen_values = true,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_PAGE)))]
    limit: u32,

    /// Start after this id
    #[arg(long, value_name = "ID", default_value_t = 0, allow_hyphen_values = true,
          value_parser = clap::value_parser!(i64).range(0..))]
    after: i64,
}

pub(crate) async fn run(args: UploadsListArgs, context: &Context) -> Result<Exit, CommandError> {
    let config = context.config()?;
    let chosen = context.store(config.as_ref())?;
    let store = chosen.open(config.as_ref(), IfMissing::Refuse).await?;
    let filter = ItemFilter { upload: args.upload, group: args.group, status: args.status };
    let page = store
        .items_page(&filter, ItemId(args.after), args.limit)
        .await
        .map_err(|error| chosen.store_error(error))?;
    let last = page.last().map(|item| item.id);
    let is_full = page.len() >= args.limit as usize;
    context.output.list(page.into_iter().map(ItemView::from).map(ItemListRow))?;
    if let Some(last) = last.filter(|_| is_full) {
        context.output.footer(&format!("there may be more; continue with --after {last}"))?;
    }
    Ok(Exit::Ok)
}
