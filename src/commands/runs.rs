//! `redrive runs submit | list | show | retry | edit | cancel | note | stats`: runs of queues (RUN-6). Columns, filters and
//! actions are declared in `redrive-ops`, `resources/runs.rs`.

mod batch_submitter;
mod line_reader;
mod submit;

mod edit;

mod stats;

use clap::{Args, Subcommand};
use redrive_ops::ActionOptions;
use redrive_store::{RunAction, RunRecord};

pub(crate) use line_reader::{InputLine, LineReader, MAX_LINE_BYTES};

use crate::{
    context::Context,
    exit::{CommandError, Exit},
    resource::{ChangeArgs, ListArgs, NoteArgs, ShowArgs, act, list, note, show},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redrive runs submit --queue verify --payload '{\"order\": 7}'
  redrive runs submit --from orders.jsonl
  redrive runs list --queue verify --state given-up
  redrive runs retry 17 18
  redrive runs stats")]
pub(crate) struct RunsArgs {
    #[command(subcommand)]
    command: RunsCommand,
}

#[derive(Debug, Subcommand)]
enum RunsCommand {
    /// Submit one run by flags, or many as JSON lines
    Submit(submit::RunsSubmitArgs),
    /// List runs
    #[command(after_help = "\
Runs are sorted by id. To get the next page, pass the last id to --after.

Examples:
  redrive runs list
  redrive runs list --queue verify --state given-up
  redrive runs list --limit 10000 --after 10000 -o jsonl")]
    List(ListArgs<RunRecord>),
    /// Show all fields of runs
    #[command(after_help = "\
`redrive why run:ID` explains the attempts of a run. Exit code 3 means that some of the runs do not
exist, 1 that none does.

Examples:
  redrive runs show 17
  redrive runs show 17 18 -o json")]
    Show(ShowArgs<RunRecord>),
    /// Retry runs, with a new count of attempts
    #[command(after_help = "\
A retried run is ready at once, with a new count of attempts; its history stays. Filters select runs that were given
up, unless --state says otherwise. Runs that passed, are ready or in progress are not changed. Asks for confirmation before more than 20 runs.
Exit codes: 0 all changed; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive runs retry 17 18
  redrive runs retry --queue verify --dry-run
  redrive runs retry --queue verify --state needs-review --yes --reason 'rules were fixed'")]
    Retry(ChangeArgs<RunRecord>),
    /// Replace the payload of a run that waits or was given up
    Edit(edit::RunsEditArgs),
    /// Cancel runs, including those in progress
    #[command(after_help = "\
Cancelling a run in progress revokes its lease: the worker stops the handler at its next renewal and
discards the result. Filters select
runs that have not ended, unless --state says otherwise; runs that have ended are not changed. Asks for confirmation before more than 20 runs.
Exit codes: 0 all changed; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive runs cancel 17 --reason 'sent by mistake'
  redrive runs cancel --queue verify --dry-run
  redrive runs cancel --queue verify --state discovered --yes")]
    Cancel(ChangeArgs<RunRecord>),
    /// Write a remark into the journal of runs
    #[command(after_help = "\
`redrive why run:ID` shows the remarks on a run. Filters select runs in every state. Asks for confirmation before more than 20.
Exit codes: 0 all noted; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive runs note 17 --text 'the customer was told'
  redrive runs note --cause 68af3934cc71cda7 --text 'see OPS-7' --yes")]
    Note(NoteArgs<RunRecord>),
    /// Show the counts and ages of every queue
    Stats(stats::RunsStatsArgs),
}

pub(crate) async fn run(args: RunsArgs, context: &Context) -> Result<Exit, CommandError> {
    match args.command {
        RunsCommand::Submit(args) => submit::run(args, context).await,
        RunsCommand::List(args) => list(args, true, context).await,
        RunsCommand::Show(args) => show(args, context).await,
        RunsCommand::Edit(args) => edit::run(args, context).await,
        RunsCommand::Retry(args) => change("runs retry", RunAction::Retry, args, context).await,
        RunsCommand::Cancel(args) => change("runs cancel", RunAction::Cancel, args, context).await,
        RunsCommand::Note(args) => note("runs note", args, context).await,
        RunsCommand::Stats(args) => stats::run(args, context).await,
    }
}

async fn change(
    command: &str,
    action: RunAction,
    args: ChangeArgs<RunRecord>,
    context: &Context,
) -> Result<Exit, CommandError> {
    act(command, action, ActionOptions::default(), args, context).await
}
