//! `redrive policy list | show | schedule`: shows retry policies (POL-9).

mod record;
mod schedule;

use clap::{Args, Subcommand};
use redrive::{JitterSeed, Policy, config::Policies};
use redrive_ops::views::PolicyView;

pub(crate) use record::{PolicyListRow, chosen};

use crate::{
    context::Context,
    exit::{CommandError, Exit},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redrive policy list
  redrive policy show run
  redrive policy schedule --preset stage --attempts 5")]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// List the presets and the policies of the configuration
    #[command(after_help = "\
Examples:
  redrive policy list
  redrive policy list -o json")]
    List,
    /// Show every setting of one policy
    #[command(after_help = "\
Examples:
  redrive policy show partition
  redrive policy show gentle --config prod/redrive.toml -o json")]
    Show {
        /// A preset (partition, run, upload, stage) or a policy of the configuration
        name: String,
    },
    /// Print when a failing unit is retried
    Schedule(schedule::PolicyScheduleArgs),
}

pub(crate) fn run(args: PolicyArgs, context: &Context) -> Result<Exit, CommandError> {
    let config = context.config()?;
    let (policies, seed) = match config {
        Some(config) => (config.policies, config.jitter_seed),
        None => (Policies::default(), JitterSeed::default()),
    };
    match args.command {
        PolicyCommand::List => {
            let records = policies.iter().map(|(name, policy)| PolicyView::new(name, policy));
            context.output.list(records.map(PolicyListRow))?;
        }
        PolicyCommand::Show { name } => {
            let policy = find(&policies, &name)?;
            context.output.record(&PolicyView::new(&name, policy))?;
        }
        PolicyCommand::Schedule(args) => schedule::run(args, &policies, seed, context)?,
    }
    Ok(Exit::Ok)
}

fn find<'a>(policies: &'a Policies, name: &str) -> Result<&'a Policy, CommandError> {
    policies.get(name).ok_or_else(|| {
        CommandError::usage(format!("there is no policy {name:?}")).help(policies.suggestion(name))
    })
}
