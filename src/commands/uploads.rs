//! `redrive uploads`: items of uploads (UPL, FIX-1).

mod record;

mod add;
mod file_entry;

mod progress;
mod run;
mod summary;

mod list;
mod show;

mod change;
mod replace;

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
  redrive uploads replace --upload tiles --group flight-7 17.png --file repaired/17.png
  redrive uploads reset 17 18 --reason 'the receiver was repaired'")]
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
    Reset(change::UploadsResetArgs),
    /// Give an item new content, after its file was repaired
    Replace(replace::UploadsReplaceArgs),
    /// Remove items that were not acknowledged from their group
    Drop(change::UploadsDropArgs),
    /// Note what the receiver found out about acknowledged items
    Mark(change::UploadsMarkArgs),
}

pub(crate) async fn run(args: UploadsArgs, context: &Context) -> Result<Exit, CommandError> {
    match args.command {
        UploadsCommand::Add(args) => add::run(args, context).await,
        UploadsCommand::Run(args) => run::run(args, context).await,
        UploadsCommand::List(args) => list::run(args, context).await,
        UploadsCommand::Show(args) => show::run(args, context).await,
        UploadsCommand::Reset(args) => change::reset(args, context).await,
        UploadsCommand::Replace(args) => replace::run(args, context).await,
        UploadsCommand::Drop(args) => change::drop(args, context).await,
        UploadsCommand::Mark(args) => change::mark(args, context).await,
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
