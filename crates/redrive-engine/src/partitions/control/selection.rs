//! Which partitions a command is for.

use redrive_core::{DateRange, InvalidUnit, LogicalDate, PartitionKey, PartitionStatus};
use redrive_store::{PartitionAction, PartitionFilter, PartitionRecord};

/// Which partitions a command is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionSelection {
    /// Those that match, of the statuses that the wish is about. A filter that leaves nothing open names
    /// one partition, whatever its status.
    Filter(PartitionFilter),
    /// Every one of these, whether there or not.
    Grid(KeyGrid),
}

/// Every day of a range, for each of some customers and queries of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyGrid {
    source: String,
    customers: Vec<String>,
    queries: Vec<String>,
    days: DateRange,
}

impl KeyGrid {
    /// Checks every part, so that every key can be one. Parts that are named twice count once.
    pub fn new(
        source: &str,
        customers: &[String],
        queries: &[String],
        days: DateRange,
    ) -> Result<Self, InvalidUnit> {
        for customer in customers {
            PartitionKey::new(source, customer, "-", days.since())?;
        }
        for query in queries {
            PartitionKey::new(source, "-", query, days.since())?;
        }
        let once = |parts: &[String]| {
            let mut parts = parts.to_vec();
            parts.sort_unstable();
            parts.dedup();
            parts
        };
        let (customers, queries) = (once(customers), once(queries));
        Ok(Self { source: source.to_owned(), customers, queries, days })
    }

    /// How many keys there are.
    pub fn len(&self) -> u64 {
        let series = self.customers.len().saturating_mul(self.queries.len());
        self.days.days().saturating_mul(series as u64)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.customers.is_empty() || self.queries.is_empty()
    }

    /// The days.
    pub fn days(&self) -> DateRange {
        self.days
    }

    /// Each key, in the order of keys.
    pub fn keys(&self) -> impl Iterator<Item = PartitionKey> + '_ {
        let series = self
            .customers
            .iter()
            .flat_map(|customer| self.queries.iter().map(move |query| (customer, query)));
        series.flat_map(|(customer, query)| {
            let key = |day: LogicalDate| PartitionKey::new(&self.source, customer, query, day);
            // Every part was checked.
            self.days.iter().filter_map(move |day| key(day).ok())
        })
    }
}

/// The one key that a filter leaves.
pub(super) fn single_key(filter: &PartitionFilter) -> Option<PartitionKey> {
    let day = filter.since.filter(|day| filter.until == Some(*day))?;
    let (source, customer) = (filter.source.as_ref()?, filter.customer_id.as_ref()?);
    PartitionKey::new(source, customer, filter.query_name.as_ref()?, day).ok()
}

/// The status of which a wish speaks when partitions are named by filter, if it is one alone.
pub(super) fn implied_status(action: PartitionAction) -> Option<PartitionStatus> {
    match action {
        PartitionAction::Retry { .. }
        | PartitionAction::MarkTerminal
        | PartitionAction::ClearTerminal => Some(PartitionStatus::Failed),
        PartitionAction::Reprocess { .. } => Some(PartitionStatus::Success),
        PartitionAction::Backfill { .. } | PartitionAction::Pause | PartitionAction::Resume => None,
    }
}

/// Whether a partition that matches is meant: who takes something away speaks of those that have it.
pub(super) fn applies_to(action: PartitionAction, partition: &PartitionRecord) -> bool {
    match action {
        PartitionAction::ClearTerminal => {
            redrive_core::is_marked_terminal(partition.error_message.as_deref())
        }
        PartitionAction::Resume => partition.paused().is_some(),
        PartitionAction::Retry { .. }
        | PartitionAction::Reprocess { .. }
        | PartitionAction::Backfill { .. }
        | PartitionAction::MarkTerminal
        | PartitionAction::Pause => true,
    }
}
