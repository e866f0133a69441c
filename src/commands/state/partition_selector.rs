//! Flags that select partitions.

use clap::Args;
use redrive::{DateRange, LogicalDate, PartitionKey, Selection};
use redrive_ops::{Resource, views::PartitionView};

use crate::exit::CommandError;

#[derive(Debug, Clone, Args)]
pub(crate) struct PartitionSelector {
    /// One partition, as partition:SOURCE/CUSTOMER/QUERY/DATE, instead of filters
    #[arg(value_name = "PARTITION", value_parser = PartitionView::parse_id, conflicts_with_all =
          ["source", "customer_id", "query_name", "logical_date", "since", "until"])]
    pub(crate) partition: Option<PartitionKey>,

    /// Only this source
    #[arg(long, value_name = "NAME", allow_hyphen_values = true, value_parser = parse_part)]
    pub(crate) source: Option<String>,

    /// Only this customer
    #[arg(long, value_name = "ID", allow_hyphen_values = true, value_parser = parse_part)]
    pub(crate) customer_id: Option<String>,

    /// Only this query
    #[arg(long, value_name = "NAME", allow_hyphen_values = true, value_parser = parse_part)]
    pub(crate) query_name: Option<String>,

    /// Only this day, as YYYY-MM-DD
    #[arg(long, value_name = "DATE", allow_hyphen_values = true,
          conflicts_with_all = ["since", "until"])]
    pub(crate) logical_date: Option<LogicalDate>,

    /// The first day
    #[arg(long, value_name = "DATE", allow_hyphen_values = true)]
    pub(crate) since: Option<LogicalDate>,

    /// The last day, inclusive
    #[arg(long, value_name = "DATE", allow_hyphen_values = true)]
    pub(crate) until: Option<LogicalDate>,
}

impl PartitionSelector {
    pub(crate) fn filter(&self) -> Result<Selection, CommandError> {
        if let Some(key) = &self.partition {
            return Ok(key.into());
        }
        if let (Some(since), Some(until)) = (self.since, self.until) {
            date_range(since, until)?;
        }
        Ok(Selection {
            source: self.source.clone(),
            customer_id: self.customer_id.clone(),
            query_name: self.query_name.clone(),
            since: self.logical_date.or(self.since),
            until: self.logical_date.or(self.until),
            ..Selection::default()
        })
    }

    /// The key, if the flags select exactly one partition.
    pub(crate) fn only_key(&self) -> Option<PartitionKey> {
        self.filter().ok()?.key()
    }
}

pub(super) fn date_range(
    since: LogicalDate,
    until: LogicalDate,
) -> Result<DateRange, CommandError> {
    DateRange::new(since, until).map_err(|_| {
        CommandError::usage(format!("--since {since} is after --until {until}"))
            .help("--since must not be later than --until")
    })
}

pub(super) fn parse_part(text: &str) -> Result<String, String> {
    match PartitionKey::new(text, "-", "-", LogicalDate::MIN) {
        Ok(_) => Ok(text.to_owned()),
        Err(invalid) => Err(invalid.problem),
    }
}
