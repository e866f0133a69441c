//! `redrive runs edit`: replaces the payload of a run (FIX-5).

use clap::Args;
use redrive::{RunId, RunStatus};
use redrive_ops::{EditRunError, Resource};
use redrive_store::RunRecord;
use serde_json::Value;

use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    operator::operator,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Replaces the payload of a run that waits or was given up; `redrive runs retry ID` then tries it again. The old payload
stays in the journal. The idempotency key stays too: the old content is refused under it from now on.
Exit codes: 0 replaced; 1 there is no such run; 2 the payload is not JSON; 4 refused, nothing changed.

Examples:
  redrive runs edit 17 --payload '{\"order\": 7, \"day\": \"2026-01-31\"}'
  redrive runs edit 17 --payload \"$(jq -c .payload fixed.json)\" --reason 'the day was wrong'")]
pub(crate) struct RunsEditArgs {
    /// The id of the run
    #[arg(value_name = "ID", allow_negative_numbers = true, value_parser = RunRecord::parse_id)]
    id: RunId,

    /// The new payload
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    payload: String,

    /// Show the run with the new payload, without changing anything
    #[arg(long)]
    dry_run: bool,

    /// The reason, for the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub(crate) async fn run(args: RunsEditArgs, context: &Context) -> Result<Exit, CommandError> {
    let payload: Value = serde_json::from_str(&args.payload).map_err(|error| {
        CommandError::usage(format!("--payload: this is not JSON: {error}"))
            .help("quote a string twice, such as '\"text\"'")
    })?;
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let by = operator(args.reason);
    let run = ops.edit_run(args.id, &payload, |_| true, (!args.dry_run).then_some(&by)).await;
    let run = run.map_err(|error| match error {
        EditRunError::Store(error) => ops.store_error(error),
        EditRunError::Unknown(_) => CommandError::new(Exit::Error, &error),
        EditRunError::Payload(_) => CommandError::usage(&error),
        _ => CommandError::new(Exit::Refused, format!("{error}; nothing was changed")),
    })?;
    let failed = run.status == RunStatus::Error;
    context.output.details(&[run])?;
    if args.dry_run {
        context.output.footer("dry run: nothing was changed")?;
    } else if failed {
        context.output.footer(&format!("`redrive runs retry {}` tries it again", args.id))?;
    }
    Ok(Exit::Ok)
}
