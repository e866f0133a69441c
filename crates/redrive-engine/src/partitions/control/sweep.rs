//! Working a selection off, a page at a time.

use redrive_core::{PartitionKey, PartitionStatus};
use redrive_store::{PartitionAction, PartitionFilter, Result};

use super::{
    Control, Looked, PartitionCommand, PartitionOutcome, PartitionSelection, RunMode,
    selection::{is_meant, only_key, status_of},
};

/// How many partitions are looked at, and change, at once.
const PAGE: u32 = 1_000;

/// How many that are pending already are named to who asks to retry what matches.
const PENDING_NAMED: u32 = 100;

/// A command on its way through its selection.
pub struct Sweep<'a> {
    control: &'a Control,
    command: &'a PartitionCommand,
    mode: RunMode,
    rest: Rest<'a>,
    more_pending: bool,
}

/// What is left of a selection.
enum Rest<'a> {
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
            PartitionSelection::Grid(grid) => Rest::Keys(Box::new(grid.keys())),
            PartitionSelection::Filter(filter) => match only_key(filter) {
                Some(key) => Rest::One(key),
                None => {
                    let status = filter.status.or(status_of(command.action));
                    Rest::All(PartitionFilter { status, ..filter.clone() })
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

    async fn look(&mut self) -> Result<Option<Vec<Looked>>> {
        match std::mem::replace(&mut self.rest, Rest::Nothing) {
            Rest::Nothing => Ok(None),
            Rest::One(key) => self.look_at(vec![key]).await.map(Some),
            Rest::Keys(mut keys) => {
                let page: Vec<PartitionKey> = keys.by_ref().take(PAGE as usize).collect();
                if page.is_empty() {
                    return Ok(None);
                }
                self.rest = Rest::Keys(keys);
                if self.mode == RunMode::Real && self.command.leaves_all_to_the_store() {
                    return Ok(Some(page.into_iter().map(Looked::Unseen).collect()));
                }
                self.look_at(page).await.map(Some)
            }
            Rest::All(filter) => {
                self.rest = Rest::Matching { filter: filter.clone(), after: None };
                self.look_at_pending(filter).await.map(Some)
            }
            Rest::Matching { filter, after } => {
                let store = self.control.store();
                let page = store.partitions_page(&filter, after.as_ref(), PAGE).await?;
                let Some(last) = page.last() else { return Ok(None) };
                if page.len() >= PAGE as usize {
                    self.rest = Rest::Matching { filter, after: Some(last.key.clone()) };
                }
                let action = self.command.action;
                let meant = page.into_iter().filter(|record| is_meant(action, record));
                Ok(Some(meant.map(|record| Looked::Found(Box::new(record))).collect()))
            }
        }
    }

    /// Before any of the others becomes pending too.
    async fn look_at_pending(&mut self, filter: PartitionFilter) -> Result<Vec<Looked>> {
        if !matches!(self.command.action, PartitionAction::Retry { .. }) {
            return Ok(Vec::new());
        }
        let filter = PartitionFilter { status: Some(PartitionStatus::Pending), ..filter };
        let store = self.control.store();
        let mut page = store.partitions_page(&filter, None, PENDING_NAMED + 1).await?;
        self.more_pending = page.len() > PENDING_NAMED as usize;
        page.truncate(PENDING_NAMED as usize);
        Ok(page.into_iter().map(|record| Looked::Found(Box::new(record))).collect())
    }

    async fn look_at(&self, keys: Vec<PartitionKey>) -> Result<Vec<Looked>> {
        let found = self.control.store().partitions_by_key(&keys).await?;
        let look = |(key, found): (PartitionKey, Option<_>)| {
            found.map_or(Looked::Absent(key), |record| Looked::Found(Box::new(record)))
        };
        Ok(keys.into_iter().zip(found).map(look).collect())
    }
}
