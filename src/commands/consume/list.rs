//! `redrive consume list`: lists readable partitions.

use clap::Args;
use redrive::PartitionKey;
use redrive_ops::{
    Resource,
    views::{PartitionView, ReadableView},
};
use redrive_store::MAX_PAGE;

use crate::{
    commands::state::PartitionSelector,
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    output::{TableColumn, TableRow},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Partitions are sorted by key. To get the next page, pass the last key to --after. JSON contains the path or
URL of each payload, which never changes.

Examples:
  redrive consume list --source ads
  redrive consume list --source ads --since 2026-01-01 --until 2026-01-31 -o jsonl")]
pub(crate) struct ConsumeListArgs {
    #[command(flatten)]
    partitions: PartitionSelector,

    /// The most rows to print, up to 10000
    #[arg(long, value_name = "N", default_value_t = 100, allow_hyphen_values = true,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_PAGE)))]
    limit: u32,

    /// Start after this partition
    #[arg(long, value_name = "PARTITION", value_parser = PartitionView::parse_id)]
    after: Option<PartitionKey>,
}

impl TableRow for ReadableView {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::key("source"),
        TableColumn::key("customer_id"),
        TableColumn::key("query_name"),
        TableColumn::text("logical_date"),
        TableColumn::text("current_run_id"),
        TableColumn::text("schema_version"),
        TableColumn::number("records"),
        TableColumn::text("updated at"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.source.clone(),
            self.customer_id.clone(),
            self.query_name.clone(),
            self.logical_date.clone(),
            self.current_run_id.clone(),
            self.schema_version.clone().unwrap_or_default(),
            self.record_count.map(|count| count.to_string()).unwrap_or_default(),
            self.updated_at.clone(),
        ]
    }
}

pub(crate) async fn run(args: ConsumeListArgs, context: &Context) -> Result<Exit, CommandError> {
    let filter = args.partitions.filter()?;
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let consumer = ops.consumer();
    let page = consumer.page(&filter, args.after.as_ref(), args.limit).await;
    let page = page.map_err(|error| ops.store_error(error))?;
    context.output.list(page.iter().map(|found| ReadableView::new(found, &consumer)))?;
    if let Some(last) = page.last().filter(|_| page.len() >= args.limit as usize) {
        context.output.footer(&format!("there may be more; continue with --after {}", last.key))?;
    }
    Ok(Exit::Ok)
}
