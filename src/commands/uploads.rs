//! `redrive uploads add | run | list | show | reset`: items of uploads (UPL).

mod record;

mod add;
mod file_entry;

mod progress;
mod run;
mod summary;

mod list;
mod show;

mod reset;

use clap::{Args, Subcommand};
use redrive::{ItemId, ItemStatus, config::Config};

use crate::{
    context::Context,
    exit::{CommandError, Exit},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redrive uploads add --upload tiles --group flight-7 tiles/*.png
  redrive uploads run --upload tiles --group flight-7
  redrive uploads list --group flight-7 --status upload_giveup
  redrive uploads reset 17 18 --reason 'tiles were repaired'")]
pub(crate) struct UploadsArgs {
    #[command(subcommand)]
    command: UploadsCommand,
}

#[derive(Debug, Subcommand)]
enum UploadsCommand {
    /// Add files as items of a group
    Add(add::UploadsAddArgs),
    /// Send the pending items of a group, with retries
    Run(run::UploadsRunArgs),
    /// List items
    List(list::UploadsListArgs),
    /// Show all fields of items
    Show(show::UploadsShowArgs),
    /// Reset items that were given up to pending
    Reset(reset::UploadsResetArgs),
}

pub(crate) async fn run(args: UploadsArgs, context: &Context) -> Result<Exit, CommandError> {
    match args.command {
        UploadsCommand::Add(args) => add::run(args, context).await,
        UploadsCommand::Run(args) => run::run(args, context).await,
        UploadsCommand::List(args) => list::run(args, context).await,
        UploadsCommand::Show(args) => show::run(args, context).await,
        UploadsCommand::Reset(args) => reset::run(args, context).await,
    }
}

fn parse_id(text: &str) -> Result<ItemId, String> {
    let id = text.parse().ok().filter(|id: &ItemId| id.0 > 0 && text == id.to_string());
    id.ok_or_else(|| "an id is a whole number, 1 or greater".to_owned())
}

fn parse_status(text: &str) -> Result<ItemStatus, String> {
    ItemStatus::from_name(text).ok_or_else(|| {
        let names = ItemStatus::ALL.map(ItemStatus::name);
        format!("the statuses are {}", names.join(", "))
    })
}

/// Reads the configuration, which must declare the upload.
fn config_with_upload(upload: &str, context: &Context) -> Result<Config, CommandError> {
    let config = context.require_config()?;
    if config.upload(upload).is_some() {
        return Ok(config);
    }
    let help = match config.uploads.as_slice() {
        [] => "the configuration declares no uploads; add an [[upload]] with a name and a url"
            .to_owned(),
        _ => config.upload_suggestion(upload),
    };
    Err(CommandError::usage(format!("--upload: there is no upload {upload:?}")).help(help))
}
