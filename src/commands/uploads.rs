//! `redrive uploads`: items of uploads (UPL, FIX-1).

mod add;
mod file_entry;

mod progress;
mod run;
mod summary;

mod replace;

use clap::{Args, Subcommand, ValueEnum};
use redrive::config::Config;
use redrive_ops::{ActionOptions, Changeable};
use redrive_store::ItemRecord;

use crate::{
    action_command::ActionCommand,
    context::Context,
    exit::{CommandError, Exit},
    resource::{ChangeArgs, ListArgs, ShowArgs, act, list, show},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redrive uploads add --upload tiles --group flight-7 tiles/*.png
  redrive uploads run --upload tiles --group flight-7
  redrive uploads list --group flight-7 --state given-up
  redrive uploads replace --upload tiles --group flight-7 tiles/17.png --file repaired/17.png
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
    #[command(after_help = "\
Items are sorted by id. To get the next page, pass the last id to --after. REJECTIONS are those since the last reset or
replacement, LAST REJECTION is the answer of the receiver to the last of all.

Examples:
  redrive uploads list --group flight-7
  redrive uploads list --upload tiles --state given-up
  redrive uploads list --limit 10000 --after 10000 -o jsonl")]
    List(ListArgs<ItemRecord>),
    /// Show all fields of items
    #[command(after_help = "\
`redrive why item:ID` explains the attempts of an item. Exit code 3 means that some of the items do
not exist, 1 that none does.

Examples:
  redrive uploads show 17
  redrive uploads show 17 18 -o json")]
    Show(ShowArgs<ItemRecord>),
    #[command(flatten)]
    Act(ActionCommand<ItemRecord>),
    /// Give an item new content, after its file was repaired
    Replace(replace::UploadsReplaceArgs),
    /// Note what the receiver found out about acknowledged items
    #[command(after_help = "\
Notes what the receiver found out about an acknowledged item after the upload. The mark is final. Always asks for
confirmation.
Exit codes: 0 all marked; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive uploads mark trusted 17 18 --yes
  redrive uploads mark rejected 19 --reason 'unreadable at the receiver'")]
    Mark(MarkArgs),
}

pub(crate) async fn run(args: UploadsArgs, context: &Context) -> Result<Exit, CommandError> {
    match args.command {
        UploadsCommand::Add(args) => add::run(args, context).await,
        UploadsCommand::Run(args) => run::run(args, context).await,
        UploadsCommand::List(args) => list(args, true, context).await,
        UploadsCommand::Show(args) => show(args, context).await,
        UploadsCommand::Act(action) => action.run(context).await,
        UploadsCommand::Replace(args) => replace::run(args, context).await,
        UploadsCommand::Mark(args) => args.run(context).await,
    }
}

#[derive(Debug, Args)]
struct MarkArgs {
    /// The verdict of the receiver
    #[arg(value_enum)]
    verdict: ReceiverVerdict,

    #[command(flatten)]
    items: ChangeArgs<ItemRecord>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ReceiverVerdict {
    Trusted,
    Rejected,
}

impl MarkArgs {
    async fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let name = match self.verdict {
            ReceiverVerdict::Trusted => "trust",
            ReceiverVerdict::Rejected => "refuse",
        };
        let action = ItemRecord::action(name);
        let action = action.ok_or_else(|| CommandError::usage("unknown action"))?;
        act("uploads mark", action, ActionOptions::default(), self.items, context).await
    }
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
