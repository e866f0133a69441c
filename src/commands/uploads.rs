//! `redrive uploads add | run | list | show | reset` (UPL).

mod record;

mod add;
mod listed;

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
    exit::{Exit, Failure},
};

/// The arguments of `uploads`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redrive uploads add --upload tiles --group flight-7 tiles/*.png
  redrive uploads run --upload tiles --group flight-7
  redrive uploads list --group flight-7 --status upload_giveup
  redrive uploads reset 17 18 --reason 'tiles were repaired'")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Add files as items of a group
    Add(add::Arguments),
    /// Send what is pending in a group, again and again within bounds
    Run(run::Arguments),
    /// List items by id, a page at a time
    List(list::Arguments),
    /// Show all that is known of some items
    Show(show::Arguments),
    /// Bring back items that were given up
    Reset(reset::Arguments),
}

/// Runs `uploads`.
pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<Exit, Failure> {
    match arguments.action {
        Action::Add(arguments) => add::run(arguments, context).await,
        Action::Run(arguments) => run::run(arguments, context).await,
        Action::List(arguments) => list::run(arguments, context).await,
        Action::Show(arguments) => show::run(arguments, context).await,
        Action::Reset(arguments) => reset::run(arguments, context).await,
    }
}

/// The id of an item, as people write it.
fn parse_id(text: &str) -> Result<ItemId, String> {
    let id = text.parse().ok().filter(|id: &ItemId| id.0 > 0 && text == id.to_string());
    id.ok_or_else(|| "an id is a whole number from 1".to_owned())
}

/// A status, by its name.
fn parse_status(text: &str) -> Result<ItemStatus, String> {
    ItemStatus::from_name(text).ok_or_else(|| {
        let names = ItemStatus::ALL.map(ItemStatus::name);
        format!("the statuses are {}", names.join(", "))
    })
}

/// The configuration, which declares the upload.
fn declaring(upload: &str, context: &Context) -> Result<Config, Failure> {
    let config = context.needed_config()?;
    if config.upload(upload).is_some() {
        return Ok(config);
    }
    let advice = match config.uploads.as_slice() {
        [] => "the file declares none; add an [[upload]] with a name and a url".to_owned(),
        _ => config.upload_suggestion(upload),
    };
    Err(Failure::usage(format!("--upload: there is no upload {upload:?}")).help(advice))
}
