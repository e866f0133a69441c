//! `redrive uploads replace`: gives an item new content, after its file was repaired (FIX-1).

use std::path::PathBuf;

use clap::Args;
use redrive::{ItemGroup, NewContent, reference_content};
use redrive_ops::ReplaceError;

use super::config_with_upload;
use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    operator::operator,
};

#[derive(Debug, Args)]
#[command(after_help = "\
The item becomes pending with the new content, a new hash and a new Idempotency-Key, and its attempts are counted from
then on. What it was stays in the ledger and in the journal. An acknowledged item is never replaced.
Exit codes: 0 replaced; 1 there is no such item, or its content cannot be read; 4 refused, nothing changed.

Examples:
  redrive uploads replace --upload tiles --group flight-7 tiles/17.png --file repaired/17.png
  redrive uploads replace --upload tiles --group flight-7 huge.tif --file /data/huge.tif --in-place")]
pub(crate) struct UploadsReplaceArgs {
    /// The name of a declared upload
    #[arg(long, value_name = "NAME")]
    upload: String,

    /// The group of the item
    #[arg(long, value_name = "NAME")]
    group: String,

    /// The name of the item, as `uploads list` shows it
    #[arg(value_name = "NAME")]
    name: String,

    /// The file with the new content
    #[arg(long, value_name = "PATH")]
    file: PathBuf,

    /// Send the file from its place, without a copy
    #[arg(long)]
    in_place: bool,

    /// The reason, for the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub(crate) async fn run(args: UploadsReplaceArgs, context: &Context) -> Result<Exit, CommandError> {
    config_with_upload(&args.upload, context)?;
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let failed = |error| ops.store_error(error);
    let group = ItemGroup { upload: args.upload, group: args.group };
    let Some(item) = ops.find_item(&group, &args.name).await.map_err(failed)? else {
        let (ItemGroup { upload, group }, name) = (&group, &args.name);
        let message = format!("group {group:?} of upload {upload:?} has no item {name:?}");
        return Err(CommandError::new(Exit::Error, message).help(format!(
            "`redrive uploads list --upload {upload} --group {group}` shows the names; `redrive uploads add` \
             adds an item"
        )));
    };
    let content = match args.in_place {
        true => reference_content(&args.file).await,
        false => ops.content().keep(NewContent::File(args.file)).await,
    };
    let content = content.map_err(|error| CommandError::new(Exit::Error, error))?;
    match ops.replace_item(&item, content, &operator(args.reason)).await {
        Ok(()) => {}
        Err(ReplaceError::Store(error)) => return Err(failed(error)),
        Err(refusal) => {
            let message = format!("item {} is not replaced: {refusal}", item.id);
            return Err(CommandError::new(Exit::Refused, message));
        }
    }
    let item = ops.store().items_by_id(&[item.id]).await.map_err(failed)?;
    context.output.details(&item)?;
    Ok(Exit::Ok)
}
