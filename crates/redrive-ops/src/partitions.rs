//! Partitions: lists, history, actions and gaps.

use redrive_core::{AttemptNumber, DateRange, LogicalDate, PartitionKey, PartitionStatus};
use redrive_engine::{Gap, gaps};
use redrive_store::{
    AttemptOutcome, AttemptRecord, JournalFilter, JournalRecord, PageLimit, PartitionRecord,
    PartitionSeries, Result, Selection, UnitKind, UnitRow,
};

use crate::{DeclaredSource, Ops, PartitionNext, views::PartitionView};

const JOURNAL_PAGE: u32 = 1_000;

/// Every given field must match.
#[derive(Debug, Clone, Default)]
pub struct GapFilter {
    pub customer_id: Option<String>,
    pub query_name: Option<String>,
    /// Inclusive.
    pub since: Option<LogicalDate>,
    /// Inclusive.
    pub until: Option<LogicalDate>,
}

impl Ops {
    pub async fn partition(&self, key: &PartitionKey) -> Result<Option<PartitionRecord>> {
        Ok(self.store().partitions_by_key(std::slice::from_ref(key)).await?.pop().flatten())
    }

    pub fn show_partition(&self, partition: PartitionRecord) -> PartitionView {
        let (rules, lease_now) = (self.partitions().rules(), self.store().now());
        let next = PartitionNext::of(&partition, rules, self.now(), lease_now);
        PartitionView::new(partition, next)
    }

    /// One partition, with the error of a reprocess that failed: such a partition stays good, so only the ledger has
    /// the error.
    pub async fn inspect_partition(&self, key: &PartitionKey) -> Result<PartitionView> {
        let Some(partition) = self.partition(key).await? else {
            return Ok(PartitionView::absent(key));
        };
        let before = AttemptNumber(partition.attempt_count.saturating_sub(1));
        let last = match partition.status {
            PartitionStatus::Success => self.partition_attempts(&partition, before, 1).await?.pop(),
            PartitionStatus::Pending | PartitionStatus::Failed => None,
        };
        let failed = last.filter(|last| last.outcome != AttemptOutcome::Success);
        let failed_reprocess = failed.map(|last| {
            let message = last.message.unwrap_or_default();
            format!("attempt {} at {}: {message}", last.attempt.0, last.ended_at)
        });
        Ok(PartitionView { failed_reprocess, ..self.show_partition(partition) })
    }

    /// Attempts by number.
    pub async fn partition_attempts(
        &self,
        partition: &PartitionRecord,
        after: AttemptNumber,
        limit: u32,
    ) -> Result<Vec<AttemptRecord>> {
        let unit = UnitRow::new(UnitKind::Partition, partition.id.0);
        self.store().attempts_of(&unit, after, limit).await
    }

    /// Journal entries about matching partitions, oldest first.
    pub async fn partition_journal(
        &self,
        journal: &JournalFilter,
        filter: &Selection,
        mut after: i64,
        limit: u32,
    ) -> Result<Vec<JournalRecord>> {
        let (mut rows, limit) = (Vec::new(), limit as usize);
        while rows.len() < limit {
            let page = self.store().journal_page(journal, after, JOURNAL_PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.id;
            let is_last = !PageLimit::from(JOURNAL_PAGE).is_reached(&page);
            let matching = page.into_iter().filter(|row| is_about(row, filter));
            rows.extend(matching.take(limit - rows.len()));
            if is_last {
                break;
            }
        }
        Ok(rows)
    }

    /// The days of a source that are due and not successful, by series. For a source without a calendar the days of the
    /// filter are due.
    pub async fn gaps(
        &self,
        source: &DeclaredSource,
        filter: &GapFilter,
    ) -> Result<Vec<(PartitionSeries, Vec<Gap>)>> {
        let Some(expected) = self.expected(source, filter) else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for series in series(source, filter) {
            let (rules, now) = (self.partitions().rules(), self.now());
            let gaps = gaps(&**self.store(), &series, expected, rules, now).await?;
            found.push((series, gaps));
        }
        Ok(found)
    }

    fn expected(&self, source: &DeclaredSource, filter: &GapFilter) -> Option<DateRange> {
        let requested = || DateRange::new(filter.since?, filter.until?).ok();
        let due = match &source.calendar {
            Some(calendar) => calendar.due(self.now())?,
            None => requested()?,
        };
        let since = filter.since.map_or(due.since(), |since| since.max(due.since()));
        let until = filter.until.map_or(due.until(), |until| until.min(due.until()));
        DateRange::new(since, until).ok()
    }
}

fn series(source: &DeclaredSource, filter: &GapFilter) -> Vec<PartitionSeries> {
    let chosen = |requested: &Option<String>, declared: &[String]| -> Vec<String> {
        requested.as_ref().map_or_else(|| declared.to_vec(), |name| vec![name.clone()])
    };
    let queries = chosen(&filter.query_name, &source.queries);
    let of = |customer: &String| -> Vec<PartitionSeries> {
        let one = |query: &String| PartitionSeries {
            source: source.name.clone(),
            customer_id: customer.clone(),
            query_name: query.clone(),
        };
        queries.iter().map(one).collect()
    };
    chosen(&filter.customer_id, &source.customers).iter().flat_map(of).collect()
}

fn is_about(row: &JournalRecord, filter: &Selection) -> bool {
    let unit = row.entry.unit.as_deref().and_then(|unit| unit.strip_prefix("partition:"));
    let Some(Ok(key)) = unit.map(str::parse::<PartitionKey>) else { return false };
    let same = |given: &Option<String>, part: &str| given.as_deref().is_none_or(|it| it == part);
    let day = key.logical_date();
    same(&filter.source, key.source())
        && same(&filter.customer_id, key.customer_id())
        && same(&filter.query_name, key.query_name())
        && filter.since.is_none_or(|since| since <= day)
        && filter.until.is_none_or(|until| day <= until)
}
