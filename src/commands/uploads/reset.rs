//! `redrive uploads reset`: makes items pending that were given up.
//!
//! Only an operator can do that, so the command always asks for confirmation and writes to the journal.

use clap::Args;
use redrive::{ItemGroup, ItemId};
use redrive_ops::{ItemSelection, views::ItemChangeView};

use super::parse_id;
use crate::{
    confirm::confirm,
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    operator::operator,
    output::{TableColumn, TableRow},
};

#[derive(Debug, Args)]
#[command(after_help = "\
A reset item is pending and has the full number of attempts again; its attempt numbers continue. Items that were
not given up are not changed. Always asks for confirmation.
Exit codes: 0 all reset; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive uploads reset 17 18 --reason 'tiles were repaired'
  redrive uploads reset --upload tiles --group flight-7 --dry-run
  redrive uploads reset --upload tiles --group flight-7 --yes")]
pub(crate) struct UploadsResetArgs {
    /// The ids of the items
    #[arg(value_name = "ID", allow_negative_numbers = true, value_parser = parse_id,
          conflicts_with_all = ["upload", "group"])]
    ids: Vec<ItemId>,

    /// Select a group of this upload instead of ids
    #[arg(long, value_name = "NAME", requires = "group")]
    upload: Option<String>,

    /// The group whose given-up items to reset
    #[arg(long, value_name = "NAME", requires = "upload")]
    group: Option<String>,

    /// The reason, for the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,

    /// Skip the confirmation
    #[arg(long)]
    yes: bool,
}

impl TableRow for ItemChangeView {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::number("id"),
        TableColumn::text("name"),
        TableColumn::text("outcome"),
        TableColumn::text("detail"),
    ];

    fn cells(&self) -> Vec<String> {
        let name = self.name.clone().unwrap_or_default();
        let outcome = self.outcome.replace('_', " ");
        vec![self.id.to_string(), name, outcome, self.detail.clone()]
    }
}

pub(crate) async fn run(args: UploadsResetArgs, context: &Context) -> Result<Exit, CommandError> {
    let selection = match (args.upload, args.group) {
        (Some(upload), Some(group)) => ItemSelection::Group(ItemGroup { upload, group }),
        _ if args.ids.is_empty() => {
            return Err(CommandError::new(
                Exit::Refused,
                "no items are selected; nothing was changed",
            )
            .help("select items by id, or all of a group with --upload NAME --group NAME"));
        }
        _ => ItemSelection::Ids(args.ids),
    };
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let failed = |error| ops.store_error(error);
    let ids = ops.select_items(&selection, usize::MAX).await.map_err(failed)?;
    if ids.is_empty() {
        let message = "the group has no given-up items; nothing was changed";
        return Err(CommandError::new(Exit::Refused, message));
    }
    if !args.dry_run {
        let items = if ids.len() == 1 { "item" } else { "items" };
        let question = format!("Reset {} {items} in {}?", ids.len(), ops.chosen.url);
        confirm(&question, args.yes)?;
    }
    let by = operator(args.reason);
    let by = (!args.dry_run).then_some(&by);
    let rows = ops.reset_items(&ids, by).await.map_err(failed)?;
    let done = rows.iter().filter(|row| row.is_done()).count();
    let exit = match (done, rows.len() - done) {
        (_, 0) => Exit::Ok,
        (0, _) => Exit::Error,
        _ => Exit::Partial,
    };
    context.output.list(rows)?;
    Ok(exit)
}
