//! `redrive policy list | show | schedule`: shows retry policies (POL-9).

mod record;
mod schedule;

use clap::{Args, Subcommand};
use redrive::{JitterSeed, config::suggestion, declared_policies};
use redrive_ops::{DeclaredPolicy, KnownPolicies, NoSuchPolicy, views::PolicyView};

pub(crate) use record::PolicyListRow;

use crate::{
    context::Context,
    exit::{CommandError, Exit},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redrive policy list
  redrive policy show
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
    /// Show every setting of the policies in force, and where each is from
    #[command(after_help = "\
Examples:
  redrive policy show                  the policy in force at each place of the configuration
  redrive policy show queue:orders
  redrive policy show gentle           at each place that uses [policy.gentle]
  redrive policy show partition -o json

A policy of the configuration overrides settings of a preset: run in queues and notifiers, partition in sources,
stage in stages, upload in uploads. The same settings written inline give the same waits.")]
    Show {
        /// A place (queue:NAME, source:NAME, upload:NAME, stage:PIPELINE/STAGE, notifier:NAME), a policy of the
        /// configuration, or a preset (partition, run, upload, stage)
        name: Option<String>,
    },
    /// Print when a failing unit is retried
    Schedule(schedule::PolicyScheduleArgs),
}

pub(crate) fn run(args: PolicyArgs, context: &Context) -> Result<Exit, CommandError> {
    let config = context.config()?;
    let declared = config.as_ref().map(declared_policies).unwrap_or_default();
    let policies = KnownPolicies::new(declared);
    let seed = config.map_or_else(JitterSeed::default, |config| config.jitter_seed);
    match args.command {
        PolicyCommand::List => {
            context.output.list(policies.0.iter().map(|it| PolicyListRow(PolicyView::new(it))))?;
        }
        PolicyCommand::Show { name: Some(name) } => {
            let found = policies.find(&name);
            if found.is_empty() {
                only(&policies, &name)?;
            }
            let views: Vec<PolicyView> = found.into_iter().map(PolicyView::new).collect();
            context.output.records(&views)?;
        }
        PolicyCommand::Show { name: None } => {
            let placed = policies.0.iter().filter(|policy| policy.place.is_some());
            let views: Vec<PolicyView> = placed.map(PolicyView::new).collect();
            context.output.records(&views)?;
        }
        PolicyCommand::Schedule(args) => schedule::run(args, &policies, seed, context)?,
    }
    Ok(Exit::Ok)
}

fn only<'a>(policies: &'a KnownPolicies, name: &str) -> Result<&'a DeclaredPolicy, CommandError> {
    policies.only(name).map_err(|error| {
        let usage = CommandError::usage(&error);
        match error {
            NoSuchPolicy::Unknown { known, .. } => {
                usage.help(suggestion(name, known.iter().map(String::as_str)))
            }
            NoSuchPolicy::Ambiguous { .. } => usage,
        }
    })
}
