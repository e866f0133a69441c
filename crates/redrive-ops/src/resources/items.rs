//! Items of uploads.

use std::collections::{BTreeMap, HashMap};

use redrive_core::{ItemEvent, ItemId, ItemStatus, Unit};
use redrive_store::{
    ItemGroup, ItemMove, ItemRecord, JournalEntry, Operator, PageLimit, PlanAction, Result,
    Selection, SelectionTerm as Term, StateFilter, Written,
};
use serde_json::json;

use super::{
    ActionDeclaration as Action, ActionOptions, BATCH, Button, ChangeRequest, ChangeResult,
    Changeable, Column, ColumnKind as Kind, Page, Resource, UnitChange, column::text, state,
};
use crate::{Ops, items::journal_entry};

impl Resource for ItemRecord {
    type Id = ItemId;

    const NOUN: &'static str = "item";
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("id", Kind::Id, |item| item.id.to_string()),
        Column::new("upload", Kind::Text, |item| item.group.upload.clone()),
        Column::new("group", Kind::Text, |item| item.group.group.clone()),
        Column::new("name", Kind::Text, |item| item.name.clone()),
        Column::new("status", Kind::State, |item| item.status.name().to_owned()),
        Column::on_pages("bytes", Kind::Number, |item| item.size_bytes.to_string()),
        Column::new("rejections", Kind::Text, rejections),
        Column::on_pages("changed", Kind::Time, |item| item.updated_at.to_string()),
        Column::on_pages("last failure", Kind::Time, |item| text(&item.last_failure_at)),
        Column::new("cause", Kind::Cause, |item| text(&item.fingerprint)),
        Column::new("last rejection", Kind::Message, |item| text(&item.rejection_reason)),
    ];
    const TERMS: &'static [Term] = &[
        Term::Upload,
        Term::Group,
        Term::Class,
        Term::Code,
        Term::Cause,
        Term::Error,
        Term::FailedSince,
        Term::FailedUntil,
    ];
    const STATES: &'static [(&'static str, StateFilter)] = &[
        ("pending", state("pending")),
        ("uploaded", state("uploaded")),
        ("trusted", state("trusted")),
        ("rejected", state("rejected")),
        ("upload_giveup", state("upload_giveup")),
        ("given_up", state("upload_giveup")),
    ];

    fn id(&self) -> ItemId {
        self.id
    }

    async fn page(
        ops: &Ops,
        selection: &Selection,
        after: Option<&ItemId>,
        limit: PageLimit,
    ) -> Result<Page<Self>> {
        let after = after.copied().unwrap_or(ItemId(limit.order.start()));
        let rows = ops.store().items_page(selection, after, limit).await?;
        Ok(Page { has_more: rows.len() >= limit.rows as usize, rows })
    }

    async fn by_id(ops: &Ops, ids: &[ItemId]) -> Result<Vec<Self>> {
        ops.store().items_by_id(ids).await
    }
}

/// Since the last reset, and before.
fn rejections(item: &ItemRecord) -> String {
    match (item.attempts_at_reset, item.upload_attempts) {
        (0, count) => count.to_string(),
        (before, count) => format!("{} ({before} before reset)", count.saturating_sub(before)),
    }
}

/// What an operator does to items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemAction {
    /// Makes items pending again that were given up.
    Reset,
    /// Removes items that were not acknowledged from their group.
    Drop,
    /// Notes that the receiver vouches for an acknowledged item.
    Trust,
    /// Notes that the receiver refused an acknowledged item.
    Refuse,
}

impl Changeable for ItemRecord {
    type Action = ItemAction;

    const COMMAND: &'static str = "uploads";
    const EXAMPLE: &'static str = "item:17";
    const ACTIONS: &'static [Action<Self>] = &[
        Action::new("reset", "Reset items that were given up to pending", |_| ItemAction::Reset)
            .command(RESET_HELP)
            .states(&[state("upload_giveup")])
            .always_confirmed()
            .for_all(|_| true)
            .buttons(&[Button::new("Reset", |item| ItemAction::Reset.allows(item.status))]),
        Action::new("drop", "Remove items that were not acknowledged from their group", |_| {
            ItemAction::Drop
        })
        .command(DROP_HELP)
        .states(&[state("pending"), state("upload_giveup")])
        .always_confirmed()
        .destructive()
        .buttons(&[Button::new("Drop", |item| ItemAction::Drop.allows(item.status))]),
        // `uploads mark` does these.
        Action::new("trust", "Note that the receiver vouches for acknowledged items", |_| {
            ItemAction::Trust
        })
        .states(&[state("uploaded")])
        .always_confirmed()
        .buttons(&[Button::new("Mark trusted", |item| ItemAction::Trust.allows(item.status))]),
        Action::new("refuse", "Note that the receiver refused acknowledged items", |_| {
            ItemAction::Refuse
        })
        .states(&[state("uploaded")])
        .always_confirmed()
        .destructive()
        .buttons(&[Button::new("Mark rejected", |item| ItemAction::Refuse.allows(item.status))]),
    ];

    /// A drop needs the lease of the group, and marks are final.
    fn plan_action(action: ItemAction, _: &ActionOptions) -> Option<PlanAction> {
        (action == ItemAction::Reset).then_some(PlanAction::ResetItem)
    }

    fn unit(id: &ItemId) -> Unit {
        Unit::Item(*id)
    }

    async fn change(
        ops: &Ops,
        action: ItemAction,
        request: &ChangeRequest<'_>,
        ids: &[ItemId],
        report: &mut (dyn FnMut(Vec<UnitChange>) + Send),
    ) -> Result<()> {
        for ids in ids.chunks(BATCH) {
            let items = ops.store().items_by_id(ids).await?;
            let items: HashMap<ItemId, ItemRecord> =
                items.into_iter().map(|item| (item.id, item)).collect();
            // What was dropped of a group stays dropped if a later group fails.
            let mut batches: BTreeMap<Option<&ItemGroup>, Vec<ItemId>> = BTreeMap::new();
            for id in ids {
                let drops = action == ItemAction::Drop;
                let group = items.get(id).filter(|_| drops).map(|item| &item.group);
                batches.entry(group).or_default().push(*id);
            }
            for ids in batches.values() {
                report(ops.change_items(action, request, ids, &items).await?);
            }
        }
        Ok(())
    }
}

const RESET_HELP: &str = "\
A reset item is pending and has the full number of attempts again; its attempt numbers continue. Items that were
not given up are not changed. Always asks for confirmation.
Exit codes: 0 all reset; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive uploads reset 17 18 --reason 'tiles were repaired'
  redrive uploads reset --upload tiles --group flight-7 --dry-run
  redrive uploads reset --upload tiles --group flight-7 --yes";

const DROP_HELP: &str = "\
A dropped item is removed from its group, and can be added again; its attempts and what it was stay in the ledger and
in the journal. Acknowledged items are never dropped. Always asks for confirmation.
Exit codes: 0 all dropped; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive uploads drop 17 18 --reason 'tiles are not needed'
  redrive uploads drop --upload tiles --group flight-7 --dry-run";

/// Whether an item was changed, or why not.
type Applied = std::result::Result<(), String>;

impl Ops {
    async fn change_items(
        &self,
        action: ItemAction,
        request: &ChangeRequest<'_>,
        ids: &[ItemId],
        items: &HashMap<ItemId, ItemRecord>,
    ) -> Result<Vec<UnitChange>> {
        let by = request.by;
        let found = ids.iter().filter_map(|id| items.get(id));
        let meant: Vec<&ItemRecord> = found.filter(|item| action.allows(item.status)).collect();
        let written: Vec<Applied> = match action.event() {
            _ if request.dry_run => vec![Ok(()); meant.len()],
            Some(event) => {
                let to_move = |item: &&ItemRecord| ItemMove {
                    journal: Some(action.entry(item, by)),
                    ..ItemMove::new(item.id, event, by.at)
                };
                let moves: Vec<ItemMove> = meant.iter().map(to_move).collect();
                self.store().move_items(&moves).await?.into_iter().map(applied).collect()
            }
            None => self.drop_items(&meant, by).await?,
        };
        let written: HashMap<ItemId, Applied> =
            meant.iter().map(|item| item.id).zip(written).collect();
        let change = |id: &ItemId| {
            let Some(item) = items.get(id) else {
                return UnitChange::unknown(Unit::Item(*id), ItemRecord::NOUN);
            };
            let refused = || Err(action.refusal(item.status));
            let result = written.get(id).cloned().unwrap_or_else(refused);
            action.change_of(item, result, request.dry_run)
        };
        Ok(ids.iter().map(change).collect())
    }

    /// Drops items of one group while nobody sends it.
    async fn drop_items(&self, items: &[&ItemRecord], by: &Operator) -> Result<Vec<Applied>> {
        let Some(first) = items.first() else { return Ok(Vec::new()) };
        let lease = match self.hold_group(&first.group, by).await? {
            Ok(lease) => lease,
            Err(busy) => {
                let why = format!("the group is being uploaded by {busy}; drop it afterwards");
                return Ok(vec![Err(why); items.len()]);
            }
        };
        let drops: Vec<(ItemId, JournalEntry)> =
            items.iter().map(|item| (item.id, ItemAction::Drop.entry(item, by))).collect();
        let written = self.store().drop_items(&drops).await;
        _ = lease.release("dropped", by.at).await;
        Ok(written?.into_iter().map(applied).collect())
    }
}

fn applied(written: Written) -> Applied {
    match written {
        Written::Applied => Ok(()),
        Written::Stale => Err("the item has changed meanwhile".to_owned()),
    }
}

impl ItemAction {
    fn change_of(self, item: &ItemRecord, result: Applied, dry_run: bool) -> UnitChange {
        let unit = Unit::Item(item.id);
        let change = match result {
            Ok(()) => {
                let attempts = item.upload_attempts;
                UnitChange::new(unit, ChangeResult::done(dry_run))
                    .because(format!("{}, after {attempts} rejections", item.name))
            }
            Err(why) => UnitChange {
                is_overridable: self.allows(item.status),
                ..UnitChange::refused(unit, why)
            },
        };
        change.was(item.status.name())
    }

    fn allows(self, status: ItemStatus) -> bool {
        match self {
            Self::Reset => status == ItemStatus::UploadGiveup,
            Self::Drop => matches!(status, ItemStatus::Pending | ItemStatus::UploadGiveup),
            Self::Trust | Self::Refuse => status == ItemStatus::Uploaded,
        }
    }

    /// Why an item of this status is not changed, and which command is right (FIX-6).
    fn refusal(self, status: ItemStatus) -> String {
        format!("the item is {status}{}", self.hint(status))
    }

    pub(crate) fn hint(self, status: ItemStatus) -> &'static str {
        match (self, status) {
            (Self::Reset, ItemStatus::Pending) => "; `uploads run` sends it",
            (Self::Reset | Self::Drop, _) => "; an acknowledged item is never sent again",
            (Self::Trust | Self::Refuse, ItemStatus::Trusted | ItemStatus::Rejected) => {
                "; the mark is final"
            }
            (Self::Trust | Self::Refuse, ItemStatus::UploadGiveup) => {
                "; only an acknowledged item can be marked: `uploads reset` makes it pending"
            }
            (Self::Trust | Self::Refuse, _) => {
                "; only an acknowledged item can be marked: `uploads run` sends it"
            }
        }
    }

    /// `None` for what removes an item.
    fn event(self) -> Option<ItemEvent> {
        match self {
            Self::Reset => Some(ItemEvent::Reset),
            Self::Drop => None,
            Self::Trust => Some(ItemEvent::Trust),
            Self::Refuse => Some(ItemEvent::Refuse),
        }
    }

    fn entry(self, item: &ItemRecord, by: &Operator) -> JournalEntry {
        let ItemGroup { upload, group } = &item.group;
        let details = match self {
            Self::Reset => json!({ "attempts": item.upload_attempts, "reason": by.reason }),
            Self::Drop => json!({
                "upload": upload,
                "group": group,
                "name": item.name,
                "status": item.status.name(),
                "content_url": item.content_url,
                "sha256": item.sha256,
                "attempts": item.upload_attempts,
                "reason": by.reason,
            }),
            Self::Trust | Self::Refuse => json!({ "reason": by.reason }),
        };
        let action = match self {
            Self::Reset => "upload.reset",
            Self::Drop => "upload.drop",
            Self::Trust => "upload.trust",
            Self::Refuse => "upload.refuse",
        };
        journal_entry(action, item, details, by)
    }
}
