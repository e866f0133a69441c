//! `redrive consume cat`: prints rows.

use clap::Args;
use redrive::{ConsumeError, Consumer, ReadablePartition};

use crate::{
    commands::state::PartitionSelector,
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
};

/// Partitions per page.
const PAGE: u32 = 1_000;

#[derive(Debug, Args)]
#[command(after_help = "\
Prints rows unchanged, one JSON object per line, partition by partition in the order of keys. A PARTITION
without status success is an error; filters skip such partitions. After the last row of a partition the
command compares hash and count with the metadata, and exits with 1 if they differ.

Examples:
  redrive consume cat partition:ads/1234567890/campaign_daily/2026-01-31
  redrive consume cat --source ads --logical-date 2026-01-31 | jq .clicks")]
pub(crate) struct ConsumeCatArgs {
    #[command(flatten)]
    partitions: PartitionSelector,

    /// Print all readable partitions; required if there is no filter
    #[arg(long)]
    all: bool,
}

pub(crate) async fn run(args: ConsumeCatArgs, context: &Context) -> Result<Exit, CommandError> {
    let filter = args.partitions.filter()?;
    if filter.is_empty() && !args.all {
        return Err(CommandError::new(
            Exit::Refused,
            "no partitions are selected; nothing was printed",
        )
        .help("select partitions by filters such as --source NAME, or pass --all"));
    }
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let consumer = ops.consumer();
    if let Some(key) = args.partitions.only_key() {
        let found = consumer.find(&key).await.map_err(|error| command_error(error, &ops))?;
        print(&consumer, &found, context, &ops).await?;
        return Ok(Exit::Ok);
    }
    let mut after = None;
    loop {
        let page = consumer.page(&filter, after.as_ref(), PAGE).await;
        let page = page.map_err(|error| ops.store_error(error))?;
        for found in &page {
            print(&consumer, found, context, &ops).await?;
        }
        match page.last() {
            Some(last) if page.len() >= PAGE as usize => after = Some(last.key.clone()),
            _ => return Ok(Exit::Ok),
        }
    }
}

async fn print(
    consumer: &Consumer,
    found: &ReadablePartition,
    context: &Context,
    ops: &OpenStore,
) -> Result<(), CommandError> {
    let mut cut = Vec::new();
    let mut rows = consumer.read_run(found).await.map_err(|error| command_error(error, ops))?;
    loop {
        let next = rows.next().await.map_err(|source| {
            command_error(ConsumeError::Raw { key: found.key.clone(), source }, ops)
        })?;
        match next {
            Some(bytes) => context.output.data(&bytes, &mut cut)?,
            None => return Ok(()),
        }
    }
}

fn command_error(error: ConsumeError, ops: &OpenStore) -> CommandError {
    match error {
        ConsumeError::Store(error) => ops.store_error(error),
        ConsumeError::NotReadable { key, why } => CommandError::new(
            Exit::Error,
            format!("partition:{key} cannot be read: {why}"),
        )
        .help("only partitions with status success can be read; `redrive why` explains the status"),
        ConsumeError::Raw { key, source } => {
            CommandError::new(Exit::Error, format!("partition:{key} cannot be read"))
                .caused_by(source)
        }
        other => CommandError::new(Exit::Error, other),
    }
}
