//! `redrive consume list | cat`: reads partitions with status success, and no others (PAR-12).

mod cat;
mod list;

use clap::{Args, Subcommand};

use crate::{
    context::Context,
    exit::{CommandError, Exit},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Only partitions with status success can be read, from the run in current_run_id.

Examples:
  redrive consume list --source ads --since 2026-01-01
  redrive consume cat partition:ads/1234567890/campaign_daily/2026-01-31")]
pub(crate) struct ConsumeArgs {
    #[command(subcommand)]
    command: ConsumeCommand,
}

#[derive(Debug, Subcommand)]
enum ConsumeCommand {
    /// List the readable partitions and the locations of their rows
    List(list::ConsumeListArgs),
    /// Print the rows of partitions
    Cat(cat::ConsumeCatArgs),
}

pub(crate) async fn run(args: ConsumeArgs, context: &Context) -> Result<Exit, CommandError> {
    match args.command {
        ConsumeCommand::List(args) => list::run(args, context).await,
        ConsumeCommand::Cat(args) => cat::run(args, context).await,
    }
}
