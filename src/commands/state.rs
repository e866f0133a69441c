//! `redrive state …`: shows and changes partitions (PAR-8, PAR-9).

mod partition_selector;

mod change;

mod backfill;

mod audit;
mod gaps;
mod history;
mod verify;

use clap::{Args, Subcommand};
use redrive_ops::{ActionOptions, views::PartitionView};
use redrive_store::PartitionAction;

pub(crate) use partition_selector::PartitionSelector;

use crate::{
    context::Context,
    exit::{CommandError, Exit},
    resource::{ChangeArgs, NoteArgs, act, note},
};

#[derive(Debug, Args)]
#[command(after_help = "\
A partition is one day of one query for one customer of a source. Only the validator decides whether a partition
is good; these commands request attempts and show the results.

Examples:
  redrive state backfill --source ads --since 2026-01-01 --until 2026-01-31
  redrive state inspect --source ads --state failed
  redrive state retry --source ads --customer-id 1234567890 --dry-run
  redrive state inspect --state terminal
  redrive state verify")]
pub(crate) struct StateArgs {
    #[command(subcommand)]
    command: StateCommand,
}

#[derive(Debug, Subcommand)]
enum StateCommand {
    /// Retry failed partitions
    #[command(after_help = "\
Failed partitions that match become pending, and a worker of their source tries them again. Their
attempt_count, current run and history stay unchanged. Filters match exactly. Terminal partitions, marked
by an operator or given up by their policy, need --clear-terminal; partitions whose data was judged and is gone
from the raw sink need --force. A failed extraction leaves no data, and needs no flag. Asks for confirmation before more than 20.
Exit codes: 0 all done, or pending already; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive state retry --source ads --logical-date 2026-01-31
  redrive state retry --source ads --since 2026-01-01 --until 2026-01-31 --dry-run
  redrive state retry partition:ads/1234567890/campaign_daily/2026-01-31 --force
  redrive state retry --all --clear-terminal --yes --reason 'the API is back'")]
    Retry(change::RetryArgs),
    /// Extract good partitions again; they stay readable meanwhile
    #[command(after_help = "\
Extracts and validates the good partitions that match again. They stay good and readable from their current run
meanwhile: an accepted new run replaces the current one, a rejected run does not. Asks for confirmation before
more than 20; partitions whose data is gone from the raw sink need --force.
Exit codes: 0 all done, or requested already; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive state reprocess --source ads --query-name campaign_daily --since 2026-01-01 --dry-run
  redrive state reprocess partition:ads/1234567890/campaign_daily/2026-01-31 --reason 'new schema'")]
    Reprocess(change::ReprocessArgs),
    /// Request the partitions of a range of days
    Backfill(backfill::StateBackfillArgs),
    /// Mark failed partitions as terminal: they are no longer retried
    #[command(after_help = "\
Adds [terminal] to the error_message of the failed partitions that match. Neither the daemon nor `state retry`
retries them until the mark is cleared, and consumers treat them as unavailable. Asks for confirmation before
more than 20.
Exit codes: 0 all done, or marked already; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive state mark-terminal --source ads --customer-id 1234567890 --reason 'the account is closed'
  redrive state mark-terminal partition:ads/1234567890/campaign_daily/2026-01-31 --dry-run")]
    MarkTerminal(ChangeArgs<PartitionView>),
    /// Clear the terminal mark; the partitions stay failed
    #[command(after_help = "\
Removes [terminal] from the error_message of the partitions that match. They stay failed; the daemon retries
them by their policy, or `state retry` does. Asks for confirmation before more than 20.
Exit codes: 0 all done, or not marked; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive state clear-terminal --source ads --customer-id 1234567890 --reason 'open again'
  redrive state clear-terminal --all --dry-run")]
    ClearTerminal(ChangeArgs<PartitionView>),
    /// Pause partitions: they are neither claimed nor retried
    #[command(after_help = "\
Workers do not claim paused partitions, and the daemon does not retry them. An attempt in progress continues to
its verdict. Asks for confirmation before more than 20.
Exit codes: 0 all done, or paused already; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive state pause --source ads --since 2026-01-01 --reason 'the API is down until noon'
  redrive state pause partition:ads/1234567890/campaign_daily/2026-01-31")]
    Pause(ChangeArgs<PartitionView>),
    /// Resume paused partitions
    #[command(after_help = "\
Resumes the paused partitions that match. Asks for confirmation before more than 20.
Exit codes: 0 all done, or not paused; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive state resume --source ads
  redrive state resume --all --yes")]
    Resume(ChangeArgs<PartitionView>),
    /// Write a remark into the journal of partitions
    #[command(after_help = "\
`redrive why PARTITION` shows the remarks on a partition. Filters select partitions in every state. Asks for confirmation before more than 20.
Exit codes: 0 all noted; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive state note partition:ads/1234567890/campaign_daily/2026-01-31 --text 'the customer was told'
  redrive state note --cause 68af3934cc71cda7 --text 'see OPS-7' --yes")]
    Note(NoteArgs<PartitionView>),
    /// Show partitions and what comes next for each
    #[command(after_help = "\
Partitions are sorted by key. To get the next page, pass the last key to --after. A PARTITION that does not exist
is shown with the status `no entry`. JSON contains every column of `partition_state`, and also whether and why the
partition is terminal or paused, and when and why it is retried.

Examples:
  redrive state inspect partition:ads/1234567890/campaign_daily/2026-01-31
  redrive state inspect --source ads --state failed
  redrive state inspect --state terminal
  redrive state inspect --source ads --limit 10000 -o jsonl")]
    Inspect(change::InspectArgs),
    /// Show the attempts of a partition
    History(history::StateHistoryArgs),
    /// Show the journal of partitions: who changed what and why
    Audit(audit::StateAuditArgs),
    /// Show expected days that are missing or not good yet
    Gaps(gaps::StateGapsArgs),
    /// Verify every partition against its ledger and its raw data
    Verify(verify::StateVerifyArgs),
}

pub(crate) async fn run(args: StateArgs, context: &Context) -> Result<Exit, CommandError> {
    match args.command {
        StateCommand::Retry(args) => change::retry(args, context).await,
        StateCommand::Reprocess(args) => change::reprocess(args, context).await,
        StateCommand::Backfill(args) => backfill::run(args, context).await,
        StateCommand::MarkTerminal(args) => {
            plain("state mark-terminal", PartitionAction::MarkTerminal, args, context).await
        }
        StateCommand::ClearTerminal(args) => {
            plain("state clear-terminal", PartitionAction::ClearTerminal, args, context).await
        }
        StateCommand::Pause(args) => {
            plain("state pause", PartitionAction::Pause, args, context).await
        }
        StateCommand::Resume(args) => {
            plain("state resume", PartitionAction::Resume, args, context).await
        }
        StateCommand::Note(args) => note("state note", args, context).await,
        StateCommand::Inspect(args) => change::inspect(args, context).await,
        StateCommand::History(args) => history::run(args, context).await,
        StateCommand::Audit(args) => audit::run(args, context).await,
        StateCommand::Gaps(args) => gaps::run(args, context).await,
        StateCommand::Verify(args) => verify::run(args, context).await,
    }
}

async fn plain(
    command: &str,
    action: PartitionAction,
    args: ChangeArgs<PartitionView>,
    context: &Context,
) -> Result<Exit, CommandError> {
    act(command, action, ActionOptions::default(), args, context).await
}
