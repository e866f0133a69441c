//! `redrive state history`: prints the attempts of a partition (PAR-9).

use clap::Args;
use redrive::{AttemptNumber, PartitionKey};
use redrive_ops::{views::AttemptView, words::rounded};
use redrive_store::MAX_PAGE;
use serde::Serialize;

use super::partition_selector::PartitionSelector;
use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    output::{TableColumn, TableRow},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Attempts are sorted by number. They come from the ledger, which is append-only. `redrive why` also shows the
rule behind each wait.

Examples:
  redrive state history partition:ads/1234567890/campaign_daily/2026-01-31
  redrive state history --source ads --customer-id 12 --query-name daily --logical-date 2026-01-31 -o json")]
pub(crate) struct StateHistoryArgs {
    #[command(flatten)]
    partitions: PartitionSelector,

    /// The most rows to print, up to 10000
    #[arg(long, value_name = "N", default_value_t = 100, allow_hyphen_values = true,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_PAGE)))]
    limit: u32,

    /// Start after this attempt number
    #[arg(long, value_name = "ATTEMPT", default_value_t = 0)]
    after: u32,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct PartitionAttemptRow(AttemptView);

impl TableRow for PartitionAttemptRow {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::number("attempt"),
        TableColumn::text("run_id"),
        TableColumn::text("started at"),
        TableColumn::number("took"),
        TableColumn::text("outcome"),
        TableColumn::text("cause"),
        TableColumn::text("code"),
        TableColumn::text("message"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.0.attempt.to_string(),
            self.0.run_id.clone().unwrap_or_default(),
            self.0.started_at.clone(),
            rounded(self.0.took),
            self.0.outcome.to_owned(),
            self.0.cause.unwrap_or_default().to_owned(),
            self.0.code.clone().unwrap_or_default(),
            self.0.message.clone().unwrap_or_default(),
        ]
    }
}

pub(crate) async fn run(args: StateHistoryArgs, context: &Context) -> Result<Exit, CommandError> {
    args.partitions.filter()?;
    let key: PartitionKey = args.partitions.only_key().ok_or_else(|| {
        CommandError::usage("state history needs exactly one partition").help(
            "pass partition:SOURCE/CUSTOMER/QUERY/DATE, or all of --source, \
                   --customer-id, --query-name and --logical-date",
        )
    })?;
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let failed = |error| ops.store_error(error);
    let Some(found) = ops.partition(&key).await.map_err(failed)? else {
        let message = format!("partition:{key} has no entry in {}", ops.chosen.url);
        return Err(CommandError::new(Exit::Error, message));
    };
    let after = AttemptNumber(args.after);
    let attempts = ops.partition_attempts(&found, after, args.limit).await;
    let attempts = attempts.map_err(failed)?;
    context.output.list(attempts.iter().map(AttemptView::from).map(PartitionAttemptRow))?;
    if let Some(last) = attempts.last().filter(|_| attempts.len() >= args.limit as usize) {
        context
            .output
            .footer(&format!("there may be more; continue with --after {}", last.attempt))?;
    }
    Ok(Exit::Ok)
}
