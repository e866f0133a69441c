//! `redrive check`: validates the configuration and prints what it declares.

mod summary;

mod notifiers;
mod rows;
mod shared_fields;

use clap::Args;
use redrive::config::{self, ConfigError};

use crate::{
    context::Context,
    exit::{CommandError, Exit},
};
use summary::{ConfigSummary, InvalidConfig};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redrive check
  redrive check --config prod/redrive.toml
  redrive check -o json | jq '.queues[].name'

The command reports all problems at once, each with its line. The programs, scripts and JSON Schemas that the file
names must exist on this host. Environment variables that the file needs and that are not set here are a warning, because
the worker or server may have another environment. It does not open the store. Exit code 1 means that there are problems.")]
pub(crate) struct CheckArgs {}

pub(crate) fn run(_: CheckArgs, context: &Context) -> Result<Exit, CommandError> {
    let Some(path) = context.config_path()? else {
        let message =
            format!("there is no {} in this folder or in a folder above", config::FILE_NAME);
        return Err(CommandError::new(Exit::Error, message)
            .help("`redrive init` writes one; --config FILE selects another file"));
    };
    let name = context.display_name(&path);
    match config::load(&path, &name) {
        Ok(config) => {
            let store = context.describe_store(&config)?;
            ConfigSummary::new(name, &config, store).print(context)?;
            Ok(Exit::Ok)
        }
        Err(ConfigError::Invalid(report)) if !context.output.is_table() => {
            context.output.record(&InvalidConfig::new(name, &report))?;
            Err(CommandError::new(Exit::Error, &report))
        }
        Err(error) => Err(error.into()),
    }
}
