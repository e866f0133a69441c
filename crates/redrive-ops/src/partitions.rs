//! Partitions: how they stand, what was done to them, and which days are not good.

use redrive_core::{
    AttemptNumber, DateRange, LogicalDate, PartitionKey, PartitionStatus, RetryForecast,
};
use redrive_engine::{Gap, PartitionCommand, PartitionOutcome, PartitionSelection, RunMode, gaps};
use redrive_store::{
    AttemptRecord, JournalFilter, JournalRecord, PartitionFilter, PartitionRecord, PartitionSeries,
    Result, UnitKind, UnitRow,
};

use crate::{DeclaredSource, Ops, PartitionNext, views::PartitionView};

/// How many rows of the journal are read at once.
const JOURNAL_PAGE: u32 = 1_000;

/// How many partitions change at once.
const BATCH: usize = 1_000;

/// Which partitions are to be shown.
#[derive(Debug, Clone, Default)]
pub struct PartitionQuery {
    /// Those that match.
    pub filter: PartitionFilter,
    /// Of those, the terminal ones alone.
    pub terminal: bool,
    /// Those alone that come after this one.
    pub after: Option<PartitionKey>,
    /// At most so many.
    pub limit: u32,
}

/// Of which days gaps are looked for; everything given narrows it.
#[derive(Debug, Clone, Default)]
pub struct GapFilter {
    /// Of this customer alone.
    pub customer_id: Option<String>,
    /// Of this query alone.
    pub query_name: Option<String>,
    /// Not before this day.
    pub since: Option<LogicalDate>,
    /// Not after this day.
    pub until: Option<LogicalDate>,
}

impl Ops {
    /// The partitions of a page, by key. Whether one is terminal is not for the store to say, so pages are
    /// read until there are enough.
    pub async fn partitions_page(&self, query: &PartitionQuery) -> Result<Vec<PartitionRecord>> {
        let PartitionQuery { filter, terminal, after, limit } = query;
        let store = self.store();
        if !terminal {
            return store.partitions_page(filter, after.as_ref(), *limit).await;
        }
        let filter = PartitionFilter { status: Some(PartitionStatus::Failed), ..filter.clone() };
        let (mut found, mut after) = (Vec::new(), after.clone());
        let (most, now) = (*limit as usize, self.now());
        let is_terminal = |partition: &PartitionRecord| {
            let forecast = self.partitions().rules().forecast(partition, now);
            matches!(forecast, Some(RetryForecast::Terminal { .. }))
        };
        while found.len() < most {
            let page = store.partitions_page(&filter, after.as_ref(), *limit).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.key.clone());
            found.extend(page.into_iter().filter(is_terminal).take(most - found.len()));
        }
        Ok(found)
    }

    /// The partition of a key.
    pub async fn partition(&self, key: &PartitionKey) -> Result<Option<PartitionRecord>> {
        Ok(self.store().partitions_by_key(std::slice::from_ref(key)).await?.pop().flatten())
    }

    /// A partition as it is shown.
    pub fn show_partition(&self, partition: PartitionRecord) -> PartitionView {
        let (rules, lease_now) = (self.partitions().rules(), self.store().now());
        let next = PartitionNext::of(&partition, rules, self.now(), lease_now);
        PartitionView::new(partition, next)
    }

    /// The attempts at a partition, by number.
    pub async fn partition_attempts(
        &self,
        partition: &PartitionRecord,
        after: AttemptNumber,
        limit: u32,
    ) -> Result<Vec<AttemptRecord>> {
        let unit = UnitRow::new(UnitKind::Partition, partition.id.0);
        self.store().attempts_of(&unit, after, limit).await
    }

    /// What the journal has about partitions that match, in the order in which it was written.
    pub async fn partition_journal(
        &self,
        journal: &JournalFilter,
        filter: &PartitionFilter,
        mut after: i64,
        limit: u32,
    ) -> Result<Vec<JournalRecord>> {
        let (mut rows, limit) = (Vec::new(), limit as usize);
        while rows.len() < limit {
            let page = self.store().journal_page(journal, after, JOURNAL_PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.id;
            let is_last = page.len() < JOURNAL_PAGE as usize;
            let matching = page.into_iter().filter(|row| is_about(row, filter));
            rows.extend(matching.take(limit - rows.len()));
            if is_last {
                break;
            }
        }
        Ok(rows)
    }

    /// What would become of partitions, no more than `most` of them.
    pub async fn preview_partitions(
        &self,
        command: &PartitionCommand,
        selection: &PartitionSelection,
        most: usize,
    ) -> Result<Vec<PartitionOutcome>> {
        let mut sweep = self.partitions().sweep(command, selection, RunMode::DryRun);
        let mut outcomes = Vec::new();
        while let Some(page) = sweep.next().await? {
            outcomes.extend(page);
            if outcomes.len() >= most {
                break;
            }
        }
        outcomes.truncate(most);
        Ok(outcomes)
    }

    /// Changes those partitions that are in a selection and among the foreseen: nothing that came later.
    pub async fn change_partitions(
        &self,
        command: &PartitionCommand,
        selection: &PartitionSelection,
        foreseen: &[PartitionOutcome],
    ) -> Result<Vec<PartitionOutcome>> {
        let mut outcomes = Vec::new();
        if let PartitionSelection::Grid(_) = selection {
            let mut sweep = self.partitions().sweep(command, selection, RunMode::Real);
            while let Some(page) = sweep.next().await? {
                outcomes.extend(page);
            }
            return Ok(outcomes);
        }
        for batch in foreseen.chunks(BATCH) {
            let keys: Vec<PartitionKey> = batch.iter().map(|it| it.key.clone()).collect();
            let found = self.store().partitions_by_key(&keys).await?;
            let found = found.into_iter().flatten().collect();
            outcomes.extend(self.partitions().change(command, found, RunMode::Real).await?);
        }
        Ok(outcomes)
    }

    /// The days of a source that should be good by now and are not, series by series. A source without a
    /// calendar expects the days that are asked for.
    pub async fn gaps(
        &self,
        source: &DeclaredSource,
        filter: &GapFilter,
    ) -> Result<Vec<(PartitionSeries, Vec<Gap>)>> {
        let Some(expected) = self.expected(source, filter) else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for series in series(source, filter) {
            let gaps = gaps(&**self.store(), &series, expected).await?;
            found.push((series, gaps));
        }
        Ok(found)
    }

    fn expected(&self, source: &DeclaredSource, filter: &GapFilter) -> Option<DateRange> {
        let asked = || DateRange::new(filter.since?, filter.until?).ok();
        let due = match &source.calendar {
            Some(calendar) => calendar.due(self.now())?,
            None => asked()?,
        };
        let since = filter.since.map_or(due.since(), |since| since.max(due.since()));
        let until = filter.until.map_or(due.until(), |until| until.min(due.until()));
        DateRange::new(since, until).ok()
    }
}

fn series(source: &DeclaredSource, filter: &GapFilter) -> Vec<PartitionSeries> {
    let chosen = |asked: &Option<String>, declared: &[String]| -> Vec<String> {
        asked.as_ref().map_or_else(|| declared.to_vec(), |asked| vec![asked.clone()])
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

/// Whether an entry is about a partition that matches.
fn is_about(row: &JournalRecord, filter: &PartitionFilter) -> bool {
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
