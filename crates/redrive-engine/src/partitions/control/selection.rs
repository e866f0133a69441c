//! The partitions that a command is for.

use redrive_core::{DateRange, InvalidUnit, LogicalDate, PartitionKey, PartitionStatus};
use redrive_store::{PartitionAction, PartitionRecord, Selection};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionSelection {
    /// Every matching partition whose status the action is about. A filter of nothing but the four parts of a
    /// key selects that partition, whatever its status.
    Filter(Box<Selection>),
    /// Every key of the grid, with or without an entry.
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
    /// Checks that every combination is a valid key. Duplicate customers and queries count once.
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
        let unique = |parts: &[String]| {
            let mut parts = parts.to_vec();
            parts.sort_unstable();
            parts.dedup();
            parts
        };
        let (customers, queries) = (unique(customers), unique(queries));
        Ok(Self { source: source.to_owned(), customers, queries, days })
    }

    pub fn len(&self) -> u64 {
        let series = self.customers.len().saturating_mul(self.queries.len());
        self.days.days().saturating_mul(series as u64)
    }

    pub fn is_empty(&self) -> bool {
        self.customers.is_empty() || self.queries.is_empty()
    }

    pub fn days(&self) -> DateRange {
        self.days
    }

    /// The keys, in ascending order.
    pub fn keys(&self) -> impl Iterator<Item = PartitionKey> + '_ {
        let series = self
            .customers
            .iter()
            .flat_map(|customer| self.queries.iter().map(move |query| (customer, query)));
        series.flat_map(|(customer, query)| {
            let key = |day: LogicalDate| PartitionKey::new(&self.source, customer, query, day);
            // `new` checked every part.
            self.days.iter().filter_map(move |day| key(day).ok())
        })
    }
}

/// The status that an action is about when the filter names none.
pub(super) fn implied_status(action: PartitionAction) -> Option<PartitionStatus> {
    match action {
        PartitionAction::Retry { .. }
        | PartitionAction::MarkTerminal
        | PartitionAction::ClearTerminal => Some(PartitionStatus::Failed),
        PartitionAction::Reprocess { .. } => Some(PartitionStatus::Success),
        PartitionAction::Backfill { .. } | PartitionAction::Pause | PartitionAction::Resume => None,
    }
}

/// Whether an action is about a matching partition: clearing a mark or a pause skips partitions without it.
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
