//! `redrive runs retry | cancel`: changes runs.
//!
//! Runs are selected by id, or by queue. An empty selection is refused, and a large one needs a
//! confirmation. A dry run applies the same selection and the same rules, and writes nothing.

use clap::Args;
use redrive::{RunId, RunMode, RunStatus};
use redrive_ops::RunSelection;
use redrive_store::RunAction;

use super::{change_outcomes::print, parse_id, parse_status};
use crate::{
    confirm::confirm,
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    operator::operator,
};

/// More runs than this need a confirmation.
const CONFIRM_ABOVE: usize = 20;

#[derive(Debug, Args)]
#[command(after_help = "\
A retried run is ready at once, with a new count of attempts; its history stays. Runs that passed, are
ready or in progress are not changed. Asks for confirmation before more than 20 runs.
Exit codes: 0 all changed; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive runs retry 17 18
  redrive runs retry --queue verify --dry-run
  redrive runs retry --queue verify --status needs_review --yes --reason 'rules were fixed'")]
pub(crate) struct RunsRetryArgs {
    #[command(flatten)]
    selection: RunSelectionArgs,

    /// With --queue: only this status [default: error]
    #[arg(long, value_name = "STATUS", requires = "queue", value_parser = parse_status)]
    status: Option<RunStatus>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Cancelling a run in progress revokes its lease: the worker stops the handler at its next renewal and
discards the result. Runs that have ended are not changed. Asks for confirmation before more than 20 runs.
Exit codes: 0 all changed; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive runs cancel 17 --reason 'sent by mistake'
  redrive runs cancel --queue verify --dry-run
  redrive runs cancel --queue verify --status discovered --yes")]
pub(crate) struct RunsCancelArgs {
    #[command(flatten)]
    selection: RunSelectionArgs,

    /// With --queue: only this status [default: discovered, processing and error]
    #[arg(long, value_name = "STATUS", requires = "queue", value_parser = parse_status)]
    status: Option<RunStatus>,
}

#[derive(Debug, Args)]
struct RunSelectionArgs {
    /// The ids of the runs
    #[arg(value_name = "ID", allow_negative_numbers = true, value_parser = parse_id,
          conflicts_with_all = ["queue", "category", "status"])]
    ids: Vec<RunId>,

    /// Select the runs of this queue instead of ids
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,

    /// With --queue: only this category
    #[arg(long, value_name = "NAME", requires = "queue")]
    category: Option<String>,

    /// The reason, for the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,

    /// Skip the confirmation
    #[arg(long)]
    yes: bool,
}

pub(crate) async fn retry(args: RunsRetryArgs, context: &Context) -> Result<Exit, CommandError> {
    let statuses = args.status.map_or(vec![RunStatus::Error], |status| vec![status]);
    change(RunAction::Retry, args.selection, &statuses, context).await
}

pub(crate) async fn cancel(args: RunsCancelArgs, context: &Context) -> Result<Exit, CommandError> {
    let not_ended = vec![RunStatus::Discovered, RunStatus::Processing, RunStatus::Error];
    let statuses = args.status.map_or(not_ended, |status| vec![status]);
    change(RunAction::Cancel, args.selection, &statuses, context).await
}

async fn change(
    action: RunAction,
    selection: RunSelectionArgs,
    statuses: &[RunStatus],
    context: &Context,
) -> Result<Exit, CommandError> {
    let selected = match &selection.queue {
        None if selection.ids.is_empty() => {
            return Err(CommandError::new(
                Exit::Refused,
                "no runs are selected; nothing was changed",
            )
            .help("select runs by id, or all runs of a queue with --queue NAME"));
        }
        None => RunSelection::Ids(selection.ids.clone()),
        Some(queue) => RunSelection::Queue {
            queue: queue.clone(),
            category: selection.category.clone(),
            statuses: statuses.to_vec(),
        },
    };
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let ids = ops.select_runs(&selected, usize::MAX).await;
    let ids = ids.map_err(|error| ops.store_error(error))?;
    if ids.is_empty() {
        let names: Vec<&str> = statuses.iter().map(|status| status.name()).collect();
        let message = format!("no run matches status {}", names.join(" or "));
        return Err(CommandError::new(Exit::Refused, format!("{message}; nothing was changed"))
            .help("`redrive runs stats` shows the runs of each queue"));
    }
    if selection.dry_run {
        let changes = ops.preview_runs(action, &ids).await;
        let changes = changes.map_err(|error| ops.store_error(error))?;
        return print(&changes, RunMode::DryRun, context);
    }
    if ids.len() > CONFIRM_ABOVE {
        let question = format!("{} {} runs in {}?", verb(action), ids.len(), ops.chosen.url);
        confirm(&question, selection.yes)?;
    }
    let by = operator(selection.reason);
    let (changes, ended) = ops.change_runs(action, &ids, &by).await;
    let exit = match (&ended, changes.is_empty()) {
        (Err(_), true) => Exit::Error,
        _ => print(&changes, RunMode::Real, context)?,
    };
    ended.map(|()| exit).map_err(|error| {
        let rest = ids.len() - changes.len();
        ops.store_error(error)
            .help(format!("{rest} runs are unchanged; run the command again for them"))
    })
}

fn verb(action: RunAction) -> &'static str {
    match action {
        RunAction::Retry => "Retry",
        RunAction::Cancel => "Cancel",
    }
}
