//! Applies a command to its selection, a page at a time.

use redrive_core::{PartitionKey, PartitionStatus};
use redrive_store::{PartitionAction, PartitionRecord, Result, Selection};

use super::{
    Control, PartitionCommand, PartitionOutcome, PartitionSelection, RunMode, SweepTarget,
    selection::{applies_to, implied_status},
};

/// Partitions read and changed at a time.
const PAGE: u32 = 1_000;

/// A retry by filter also lists the matching partitions that are already pending, up to this many.
const MAX_PENDING_LISTED: u32 = 100;

/// A command in progress over its selection.
pub struct Sweep<'a> {
    control: &'a Control,
    command: &'a PartitionCommand,
    mode: RunMode,
    remaining: Remaining<'a>,
    more_pending: bool,
}

/// The part of a selection that is not processed yet.
enum Remaining<'a> {
    One(PartitionKey),
    /// The whole filter of a retry, which first lists the partitions that are already pending.
    PendingFirst(Selection),
    Matching {
        filter: Selection,
        after: Option<PartitionKey>,
    },
    Keys(Box<dyn Iterator<Item = PartitionKey> + Send + Sync + 'a>),
    Nothing,
}

impl<'a> Sweep<'a> {
    pub(super) fn new(
        control: &'a Control,
        command: &'a PartitionCommand,
        selection: &'a PartitionSelection,
        mode: RunMode,
    ) -> Self {
        let remaining = match selection {
            PartitionSelection::Grid(grid) => Remaining::Keys(Box::new(grid.keys())),
            PartitionSelection::Filter(filter) => match filter.key() {
                Some(key) => Remaining::One(key),
                None => {
                    let implied = implied_status(command.action).map(Into::into);
                    let state = filter.state.or(implied);
                    let whole = Selection { state, ..(**filter).clone() };
                    match command.action {
                        PartitionAction::Retry { .. } if filter.state.is_none() => {
                            Remaining::PendingFirst(whole)
                        }
                        _ => Remaining::Matching { filter: whole, after: None },
                    }
                }
            },
        };
        Self { control, command, mode, remaining, more_pending: false }
    }

    /// Whether more matching partitions are already pending than the sweep has listed.
    pub fn has_more_pending(&self) -> bool {
        self.more_pending
    }

    /// The keys of the next page, which may be empty; none at the end. Nothing is planned or changed.
    pub async fn next_keys(&mut self) -> Result<Option<Vec<PartitionKey>>> {
        let targets = self.next_targets().await?;
        Ok(targets.map(|targets| targets.iter().map(|target| target.key().clone()).collect()))
    }

    /// The outcomes of the next page; none at the end. After an error, the pages before it are applied and
    /// the rest is unchanged.
    pub async fn next(&mut self) -> Result<Option<Vec<PartitionOutcome>>> {
        loop {
            let Some(targets) = self.next_targets().await? else { return Ok(None) };
            // A page may hold no partition that the action is about, and still not be the last.
            if !targets.is_empty() {
                return self.control.apply(self.command, targets, self.mode).await.map(Some);
            }
        }
    }

    async fn next_targets(&mut self) -> Result<Option<Vec<SweepTarget>>> {
        match std::mem::replace(&mut self.remaining, Remaining::Nothing) {
            Remaining::Nothing => Ok(None),
            Remaining::One(key) => self.read_keys(vec![key]).await.map(Some),
            Remaining::Keys(mut keys) => {
                let page: Vec<PartitionKey> = keys.by_ref().take(PAGE as usize).collect();
                if page.is_empty() {
                    return Ok(None);
                }
                self.remaining = Remaining::Keys(keys);
                if self.mode == RunMode::Real && self.command.needs_no_read() {
                    return Ok(Some(page.into_iter().map(SweepTarget::Unread).collect()));
                }
                self.read_keys(page).await.map(Some)
            }
            Remaining::PendingFirst(filter) => {
                self.remaining = Remaining::Matching { filter: filter.clone(), after: None };
                self.read_pending(filter).await.map(Some)
            }
            Remaining::Matching { filter, after } => {
                let store = self.control.store();
                let page = store.partitions_page(&filter, after.as_ref(), PAGE.into()).await?;
                let Some(last) = page.last() else { return Ok(None) };
                let next = (page.len() >= PAGE as usize).then(|| last.key.clone());
                let (action, now) = (self.command.action, self.command.audit.by.at);
                let is_meant = |record: &PartitionRecord| {
                    applies_to(action, record) && self.control.rules.selects(&filter, record, now)
                };
                let targets = page.into_iter().filter(is_meant);
                let targets = targets.map(|record| SweepTarget::Found(Box::new(record))).collect();
                if next.is_some() {
                    self.remaining = Remaining::Matching { filter, after: next };
                }
                Ok(Some(targets))
            }
        }
    }

    /// Must run before the first page changes: a retried partition is pending too.
    async fn read_pending(&mut self, filter: Selection) -> Result<Vec<SweepTarget>> {
        let filter = Selection { state: Some(PartitionStatus::Pending.into()), ..filter };
        let store = self.control.store();
        let mut page =
            store.partitions_page(&filter, None, (MAX_PENDING_LISTED + 1).into()).await?;
        self.more_pending = page.len() > MAX_PENDING_LISTED as usize;
        page.truncate(MAX_PENDING_LISTED as usize);
        Ok(page.into_iter().map(|record| SweepTarget::Found(Box::new(record))).collect())
    }

    async fn read_keys(&self, keys: Vec<PartitionKey>) -> Result<Vec<SweepTarget>> {
        let found = self.control.store().partitions_by_key(&keys).await?;
        let target = |(key, found): (PartitionKey, Option<_>)| {
            found.map_or(SweepTarget::Absent(key), |record| SweepTarget::Found(Box::new(record)))
        };
        Ok(keys.into_iter().zip(found).map(target).collect())
    }
}
