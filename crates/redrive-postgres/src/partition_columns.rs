//! Conversions between partitions and their columns.

use redrive_core::PartitionKey;

use crate::{batch::each, bound_query::columns, columns::Day};

columns! {
    /// Partition keys as arrays.
    pub(crate) struct KeyColumns<'a> {
        source: Vec<&'a str>,
        customer_id: Vec<&'a str>,
        query_name: Vec<&'a str>,
        logical_date: Vec<Day>,
    }
}

impl<'a> KeyColumns<'a> {
    pub(crate) fn of(keys: &[&'a PartitionKey]) -> Self {
        Self {
            source: each(keys, |key| key.source()),
            customer_id: each(keys, |key| key.customer_id()),
            query_name: each(keys, |key| key.query_name()),
            logical_date: each(keys, |key| Day::On(key.logical_date())),
        }
    }
}
