//! Working a selection off, a page at a time.

use redrive_core::{PartitionKey, PartitionStatus};
use redrive_store::{PartitionAction, PartitionFilter, Result};

use super::{
    Control, PartitionCommand, PartitionOutcome, PartitionSelection, RunMode, SweepTarget,
    selection::{applies_to, implied_status, single_key},
};

/// How many partitions are looked at, and change, at once.
const PAGE: u32 = 1_000;

/// How many that are pending already are named to who asks to retry what matches.
const MAX_PENDING_LISTED: u32 = 100;

/// A command on its way through its selection.
pub struct Sweep<'a> {
    control: &'a Control,
    command: &'a PartitionCommand,
    mode: RunMode,
    rest: Remaining<'a>,
    more_pending: bool,
}

/// What is left of a selection.
enum Remaining<'a> {
    /// One key.
    One(PartitionKey),
    /// What matches: first those that are pending already, of a retry.
    All(PartitionFilter),
    /// What matches after a key.
    Matching { filter: PartitionFilter, after: Option<PartitionKey> },
    /// Keys.
    Keys(Box<dyn Iterator<Item = PartitionKey> + Send + Sync + 'a>),
    /// Nothing.
    Nothing,
}

impl<'a> Sweep<'a> {
    pub(super) fn new(
        control: &'a Control,
        command: &'a PartitionCommand,
        selection: &'a PartitionSelection,
        mode: RunMode,
    ) -> Self {
        let rest = match selection {
            PartitionSelection::Grid(grid) => Remaining::Keys(Box::new(grid.keys())),
            PartitionSelection::Filter(filter) => match single_key(filter) {
                Some(key) => Remaining::One(key),
                None => {
                    let status = filter.status.or(implied_status(command.action));
                    Remaining::All(PartitionFilter { status, ..filter.clone() })
                }
            },
        };
        Self { control, command, mode, rest, more_pending: false }
    }

    /// Whether more of those that match are pending already than were named.
    pub fn has_more_pending(&self) -> bool {
        self.more_pending
    }

    /// What became of the next ones; none when there are no more. After an error, what was reached before
    /// is done, and the rest is as it was.
    pub async fn next(&mut self) -> Result<Option<Vec<PartitionOutcome>>> {
        loop {
            let Some(looked) = self.look().await? else { return Ok(None) };
            // A page of which nothing is meant is no end.
            if !looked.is_empty() {
                return self.control.act(self.command, looked, self.mode).await.map(Some);
            }
        }
    }

    async fn look(&mut self) -> Result<Option<Vec<SweepTarget>>> {
        match std::mem::replace(&mut self.rest, Remaining::Nothing) {
            Remaining::Nothing => Ok(None),
            Remaining::One(key) => self.look_at(vec![key]).await.map(Some),
            Remaining::Keys(mut keys) => {
                let page: Vec<PartitionKey> = keys.by_ref().take(PAGE as usize).collect();
                if page.is_empty() {
                    return Ok(None);
                }
                self.rest = Remaining::Keys(keys);
                if self.mode == RunMode::Real && self.command.needs_no_read() {
                    return Ok(Some(page.into_iter().map(SweepTarget::Unread).collect()));
                }
                self.look_at(page).await.map(Some)
            }
            Remaining::All(filter) => {
                self.rest = Remaining::Matching { filter: filter.clone(), after: None };
                self.look_at_pending(filter).await.map(Some)
            }
            Remaining::Matching { filter, after } => {
                let store = self.control.store();
                let page = store.partitions_page(&filter, after.as_ref(), PAGE).await?;
                let Some(last) = page.last() else { return Ok(None) };
                if page.len() >= PAGE as usize {
                    self.rest = Remaining::Matching { filter, after: Some(last.key.clone()) };
                }
                let action = self.command.action;
                let meant = page.into_iter().filter(|record| applies_to(action, record));
                Ok(Some(meant.map(|record| SweepTarget::Found(Box::new(record))).collect()))
            }
        }
    }

    /// Before any of the others becomes pending too.
    async fn look_at_pending(&mut self, filter: PartitionFilter) -> Result<Vec<SweepTarget>> {
        if !matches!(self.command.action, PartitionAction::Retry { .. }) {
            return Ok(Vec::new());
        }
        let filter = PartitionFilter { status: Some(PartitionStatus::Pending), ..filter };
        let store = self.control.store();
        let mut page = store.partitions_page(&filter, None, MAX_PENDING_LISTED + 1).await?;
        self.more_pending = page.len() > MAX_PENDING_LISTED as usize;
        page.truncate(MAX_PENDING_LISTED as usize);
        Ok(page.into_iter().map(|record| SweepTarget::Found(Box::new(record))).collect())
    }

    async fn look_at(&self, keys: Vec<PartitionKey>) -> Result<Vec<SweepTarget>> {
        let found = self.control.store().partitions_by_key(&keys).await?;
        let look = |(key, found): (PartitionKey, Option<_>)| {
            found.map_or(SweepTarget::Absent(key), |record| SweepTarget::Found(Box::new(record)))
        };
        Ok(keys.into_iter().zip(found).map(look).collect())
    }
}
