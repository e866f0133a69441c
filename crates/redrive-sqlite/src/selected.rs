//! Runs queries over a selection of units.

use redrive_store::{FromRow, PageRow, Result, Selection, SelectionSql, SqlDialect, TermValue};
use rusqlite::{params_from_iter, types::Value};

use crate::{
    SqliteStore,
    columns::{micros, read_page, read_records},
    partition_columns::written_date,
};

const DIALECT: SqlDialect =
    SqlDialect { position: "instr", stage_name: "run.stages ->> samples.stage", parameter: '?' };

/// A query with the place for a selection, which units it is about, and the values of its own parameters.
pub(crate) struct SelectQuery {
    pub(crate) units: SelectionSql,
    pub(crate) sql: &'static str,
    pub(crate) own: Vec<Value>,
}

impl SelectQuery {
    fn complete(self, selection: &Selection) -> (String, Vec<Value>) {
        let Self { units, sql, own: mut values } = self;
        let (sql, terms) = units.complete(sql, selection, DIALECT, values.len());
        values.extend(terms.into_iter().map(|term| match term {
            TermValue::Text(text) => text.into(),
            TermValue::Number(number) => number.into(),
            TermValue::Time(time) => micros(time).into(),
            TermValue::Day(day) => written_date(day).into(),
        }));
        (sql, values)
    }
}

impl SqliteStore {
    pub(crate) async fn select<T: FromRow + Send + 'static>(
        &self,
        doing: &'static str,
        query: SelectQuery,
        selection: &Selection,
    ) -> Result<Vec<T>> {
        let (sql, values) = query.complete(selection);
        self.read(move |connection| {
            read_records(connection, doing, &sql, params_from_iter(&values))
        })
        .await
    }

    /// Like [`Self::select`], until the page has its most bytes.
    pub(crate) async fn select_page<T: FromRow + PageRow + Send + 'static>(
        &self,
        doing: &'static str,
        query: SelectQuery,
        selection: &Selection,
    ) -> Result<Vec<T>> {
        let (sql, values) = query.complete(selection);
        self.read(move |connection| read_page(connection, doing, &sql, params_from_iter(&values)))
            .await
    }
}
