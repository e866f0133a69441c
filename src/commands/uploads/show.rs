//! `redrive uploads show`: prints items.

use std::collections::HashMap;

use clap::Args;
use redrive::ItemId;
use redrive_ops::views::ItemView;
use redrive_store::MAX_BATCH;

use super::parse_id;
use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
};

#[derive(Debug, Args)]
#[command(after_help = "\
`redrive why item:ID` explains the attempts of an item. Exit code 3 means that some of the items do
not exist, 1 that none does.

Examples:
  redrive uploads show 17
  redrive uploads show 17 18 -o json")]
pub(crate) struct UploadsShowArgs {
    /// The ids of the items
    #[arg(value_name = "ID", required = true, allow_negative_numbers = true, value_parser = parse_id)]
    ids: Vec<ItemId>,
}

pub(crate) async fn run(args: UploadsShowArgs, context: &Context) -> Result<Exit, CommandError> {
    let config = context.config()?;
    let chosen = context.store(config.as_ref())?;
    let store = chosen.open(config.as_ref(), IfMissing::Refuse).await?;
    let mut found = HashMap::new();
    for ids in args.ids.chunks(MAX_BATCH) {
        let items = store.items_by_id(ids).await.map_err(|error| chosen.store_error(error))?;
        found.extend(items.into_iter().map(|item| (item.id, item)));
    }
    let (mut rows, mut unknown) = (Vec::new(), Vec::new());
    for id in &args.ids {
        match found.get(id) {
            Some(item) => rows.push(ItemView::from(item.clone())),
            None => unknown.push(id.to_string()),
        }
    }
    if rows.is_empty() {
        return Err(CommandError::new(
            Exit::Error,
            format!("there is no item {}", unknown.join(", ")),
        ));
    }
    context.output.records(&rows)?;
    if unknown.is_empty() {
        return Ok(Exit::Ok);
    }
    context.output.note(&format!("there is no item {}", unknown.join(", ")));
    Ok(Exit::Partial)
}
