//! `redrive consume list | cat`: reads good partitions, and nothing else (PAR-12).

mod cat;
mod list;

use clap::{Args, Subcommand};

use crate::{
    context::Context,
    exit::{Exit, Failure},
};

/// The arguments of `consume`.
#[derive(Debug, Args)]
#[command(after_help = "\
Only what the state says is success can be read, from the run that has authority.

Examples:
  redrive consume list --source ads --since 2026-01-01
  redrive consume cat partition:ads/1234567890/campaign_daily/2026-01-31")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the partitions that can be read, and where their rows are
    List(list::Arguments),
    /// Print the rows of partitions
    Cat(cat::Arguments),
}

/// Runs `consume`.
pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<Exit, Failure> {
    match arguments.action {
        Action::List(arguments) => list::run(arguments, context).await,
        Action::Cat(arguments) => cat::run(arguments, context).await,
    }
}
