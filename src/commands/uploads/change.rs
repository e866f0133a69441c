//! `redrive uploads reset | drop | mark`: changes items.
//!
//! Only an operator can do that, so the commands always ask for confirmation and write to the journal.

use clap::{Args, ValueEnum};
use redrive::{ItemGroup, ItemId};
use redrive_ops::{ItemAction, ItemSelection, views::ItemChangeView};

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
    #[command(flatten)]
    items: ChangedItems,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A dropped item is removed from its group, and can be added again; its attempts and what it was stay in the ledger and
in the journal. Acknowledged items are never dropped. Always asks for confirmation.
Exit codes: 0 all dropped; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive uploads drop 17 18 --reason 'tiles are not needed'
  redrive uploads drop --upload tiles --group flight-7 --dry-run")]
pub(crate) struct UploadsDropArgs {
    #[command(flatten)]
    items: ChangedItems,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Notes what the receiver found out about an acknowledged item after the upload. The mark is final. Always asks for
confirmation.
Exit codes: 0 all marked; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive uploads mark trusted 17 18 --yes
  redrive uploads mark rejected 19 --reason 'unreadable at the receiver'")]
pub(crate) struct UploadsMarkArgs {
    /// The verdict of the receiver
    #[arg(value_enum)]
    verdict: ReceiverVerdict,

    /// The ids of the items
    #[arg(value_name = "ID", required = true, value_parser = parse_id)]
    ids: Vec<ItemId>,

    #[command(flatten)]
    how: HowChanged,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ReceiverVerdict {
    Trusted,
    Rejected,
}

#[derive(Debug, Args)]
struct ChangedItems {
    /// The ids of the items
    #[arg(value_name = "ID", allow_negative_numbers = true, value_parser = parse_id,
          conflicts_with_all = ["upload", "group"])]
    ids: Vec<ItemId>,

    /// Select a group of this upload instead of ids
    #[arg(long, value_name = "NAME", requires = "group")]
    upload: Option<String>,

    /// The group whose given-up items to select
    #[arg(long, value_name = "NAME", requires = "upload")]
    group: Option<String>,

    #[command(flatten)]
    how: HowChanged,
}

#[derive(Debug, Args)]
struct HowChanged {
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

pub(crate) async fn reset(args: UploadsResetArgs, context: &Context) -> Result<Exit, CommandError> {
    let (selection, how) = args.items.selection()?;
    change(ItemAction::Reset, "Reset", selection, how, context).await
}

pub(crate) async fn drop(args: UploadsDropArgs, context: &Context) -> Result<Exit, CommandError> {
    let (selection, how) = args.items.selection()?;
    change(ItemAction::Drop, "Drop", selection, how, context).await
}

pub(crate) async fn mark(args: UploadsMarkArgs, context: &Context) -> Result<Exit, CommandError> {
    let (action, verb) = match args.verdict {
        ReceiverVerdict::Trusted => (ItemAction::Trust, "Mark as trusted"),
        ReceiverVerdict::Rejected => (ItemAction::Refuse, "Mark as rejected"),
    };
    change(action, verb, ItemSelection::Ids(args.ids), args.how, context).await
}

impl ChangedItems {
    fn selection(self) -> Result<(ItemSelection, HowChanged), CommandError> {
        let selection = match (self.upload, self.group) {
            (Some(upload), Some(group)) => ItemSelection::Group(ItemGroup { upload, group }),
            _ if self.ids.is_empty() => {
                return Err(CommandError::new(
                    Exit::Refused,
                    "no items are selected; nothing was changed",
                )
                .help("select items by id, or the given-up ones of a group with --upload NAME --group NAME"));
            }
            _ => ItemSelection::Ids(self.ids),
        };
        Ok((selection, self.how))
    }
}

async fn change(
    action: ItemAction,
    verb: &str,
    selection: ItemSelection,
    how: HowChanged,
    context: &Context,
) -> Result<Exit, CommandError> {
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let failed = |error| ops.store_error(error);
    let ids = ops.select_items(&selection, usize::MAX).await.map_err(failed)?;
    if ids.is_empty() {
        let message = "the group has no given-up items; nothing was changed";
        return Err(CommandError::new(Exit::Refused, message));
    }
    if !how.dry_run {
        let items = if ids.len() == 1 { "item" } else { "items" };
        let question = format!("{verb} {} {items} in {}?", ids.len(), ops.chosen.url);
        confirm(&question, how.yes)?;
    }
    let by = operator(how.reason);
    let by = (!how.dry_run).then_some(&by);
    let rows = ops.change_items(&ids, action, by).await.map_err(failed)?;
    let done = rows.iter().filter(|row| row.is_done()).count();
    let exit = match (done, rows.len() - done) {
        (_, 0) => Exit::Ok,
        (0, _) => Exit::Error,
        _ => Exit::Partial,
    };
    context.output.list(rows)?;
    Ok(exit)
}
