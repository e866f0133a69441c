//! `redrive state history`: the attempts at a partition (PAR-9).

use clap::Args;
use redrive::{AttemptNumber, PartitionKey};
use redrive_store::{AttemptRecord, MAX_PAGE, UnitKind, UnitRow};
use serde::Serialize;
use serde_json::Value;

use super::which::Which;
use crate::{
    commands::policy::rounded,
    context::{Context, Missing},
    desk::Desk,
    exit::{Exit, Failure},
    output::{Column, Row, seconds},
};

/// The arguments of `state history`.
#[derive(Debug, Args)]
#[command(after_help = "\
Attempts come by number, from the ledger, where nothing is ever changed. `redrive why` tells the rule
behind each wait besides.

Examples:
  redrive state history partition:ads/1234567890/campaign_daily/2026-01-31
  redrive state history --source ads --customer-id 12 --query-name daily --logical-date 2026-01-31 -o json")]
pub(crate) struct Arguments {
    #[command(flatten)]
    which: Which,

    /// At most so many, up to 10000
    #[arg(long, value_name = "N", default_value_t = 100, allow_hyphen_values = true,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_PAGE)))]
    limit: u32,

    /// Those with greater numbers alone
    #[arg(long, value_name = "ATTEMPT", default_value_t = 0)]
    after: u32,
}

/// An attempt, as the ledger has it.
#[derive(Debug, Serialize)]
pub(crate) struct AttemptRow {
    attempt: u32,
    run_id: Option<String>,
    started_at: String,
    ended_at: String,
    took_s: Value,
    outcome: &'static str,
    class: Option<String>,
    code: Option<String>,
    message: Option<String>,
    cause: Option<&'static str>,
    worker: String,
    #[serde(skip)]
    took: String,
}

impl From<&AttemptRecord> for AttemptRow {
    fn from(attempt: &AttemptRecord) -> Self {
        let took = attempt.ended_at.duration_since(attempt.started_at);
        let took = took.try_into().unwrap_or_default();
        Self {
            attempt: attempt.attempt.0,
            run_id: attempt.run_id.clone(),
            started_at: attempt.started_at.to_string(),
            ended_at: attempt.ended_at.to_string(),
            took_s: seconds(took),
            outcome: attempt.outcome.name(),
            class: attempt.class.clone(),
            code: attempt.code.clone(),
            message: attempt.message.clone(),
            cause: attempt.cause.map(|cause| cause.name()),
            worker: attempt.worker.clone(),
            took: rounded(took),
        }
    }
}

impl Row for AttemptRow {
    const COLUMNS: &'static [Column] = &[
        Column::number("attempt"),
        Column::text("run_id"),
        Column::text("started at"),
        Column::number("took"),
        Column::text("outcome"),
        Column::text("cause"),
        Column::text("code"),
        Column::text("message"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.attempt.to_string(),
            self.run_id.clone().unwrap_or_default(),
            self.started_at.clone(),
            self.took.clone(),
            self.outcome.to_owned(),
            self.cause.unwrap_or_default().to_owned(),
            self.code.clone().unwrap_or_default(),
            self.message.clone().unwrap_or_default(),
        ]
    }
}

/// Runs `state history`.
pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<Exit, Failure> {
    arguments.which.filter()?;
    let key: PartitionKey = arguments.which.only_key().ok_or_else(|| {
        Failure::usage("a history is that of one partition").help(
            "name it as partition:SOURCE/CUSTOMER/QUERY/DATE, or by all of --source, \
                   --customer-id, --query-name and --logical-date",
        )
    })?;
    let desk = Desk::open(context, Missing::Refuse).await?;
    let store = desk.control.store();
    let found = store.partitions_by_key(std::slice::from_ref(&key)).await;
    let Some(found) = found.map_err(|error| desk.failure(error))?.pop().flatten() else {
        let message = format!("partition:{key} has no entry in {}", desk.chosen.url);
        return Err(Failure::new(Exit::Error, message));
    };
    let unit = UnitRow::new(UnitKind::Partition, found.id.0);
    let attempts = store.attempts_of(&unit, AttemptNumber(arguments.after), arguments.limit).await;
    let attempts = attempts.map_err(|error| desk.failure(error))?;
    context.output.list(attempts.iter().map(AttemptRow::from))?;
    if let Some(last) = attempts.last().filter(|_| attempts.len() >= arguments.limit as usize) {
        context.output.remark(&format!("there may be more: --after {}", last.attempt))?;
    }
    Ok(Exit::Ok)
}
