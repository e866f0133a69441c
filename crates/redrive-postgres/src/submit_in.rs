//! Submitting runs in the caller's transaction.

use jiff::Timestamp;
use redrive_store::{Error, NewRun, Result, SubmittedRun};
use tokio_postgres::{Row, Transaction, error::SqlState, types::Type};

use crate::{
    batch::each,
    bound_query::{BoundQuery, bind},
    columns::Micros,
    error, queries,
    submit::{DOING, NewRunColumns, accepted, answers, existing_runs, refused_keys},
};

/// Submits runs in the caller's transaction: they are in their queue if and only if the transaction commits,
/// together with its other writes. Workers are notified at the commit.
///
/// The connection keeps neither a prepared statement nor a setting, and its search path does not matter, so it
/// may come from any pool. Its user needs `USAGE` on the schema `redrive`, `SELECT` and `INSERT` on
/// `redrive.runs`, and `INSERT` on `redrive.ready_runs` and `redrive.due_runs`.
///
/// The transaction may have any isolation level. A stricter level than the default may meet a key that was taken
/// after the transaction began; that is a serialization failure, [`Error::Unavailable`]: run the transaction again.
///
/// Idempotency keys mean the same as in [`Runs::submit_runs`](redrive_store::Runs::submit_runs). While the
/// transaction is open, other submitters of its keys wait for its end, so commit soon.
///
/// After an error, or when this future is dropped before it is ready, roll the transaction back.
pub async fn submit_in(
    transaction: &Transaction<'_>,
    runs: &[NewRun],
    now: Timestamp,
) -> Result<Vec<SubmittedRun>> {
    if runs.is_empty() {
        return Ok(Vec::new());
    }
    let columns = NewRunColumns::of(runs);
    let keys = each(runs, NewRun::idempotency_key);
    let insert = bind!(
        queries::INSERT_RUNS,
        now => &Micros(now),
        idempotency_key => &keys,
        ..NewRunColumns(columns)
    );
    let types: &[&[Type]] = &[&[Type::TIMESTAMPTZ, Type::TEXT_ARRAY], &NewRunColumns::TYPES];
    let inserted = unnamed(transaction, insert, types).await?;
    let accepted = accepted(runs, &inserted)?;
    let found = match refused_keys(runs, &accepted) {
        (queues, _) if queues.is_empty() => Vec::new(),
        (queues, keys) => {
            let read = bind!(queries::IDEMPOTENT_RUNS, queue => &queues, idempotency_key => &keys);
            unnamed(transaction, read, &[&[Type::TEXT_ARRAY, Type::TEXT_ARRAY]]).await?
        }
    };
    if accepted.iter().any(Option::is_some) {
        unnamed(transaction, bind!(queries::NOTIFY_AT_COMMIT), &[]).await?;
    }
    answers(runs, &accepted, &existing_runs(&found)?)
}

/// Runs an unnamed statement, which leaves nothing behind on the connection. The types are grouped as the
/// values are.
async fn unnamed(
    transaction: &Transaction<'_>,
    query: BoundQuery<'_>,
    types: &[&[Type]],
) -> Result<Vec<Row>> {
    let values: Vec<_> = query.ordered_values().into_iter().zip(query.ordered(types)).collect();
    transaction.query_typed(query.query.sql(), &values).await.map_err(|error| match error.code() {
        Some(&SqlState::UNDEFINED_TABLE) => Error::Refused {
            doing: DOING.to_owned(),
            problem: "this database has no tables of Redrive; connect to the right database, or \
                      create the tables with `redrive db migrate`"
                .to_owned(),
            source: Some(error.into()),
        },
        _ => error::database(DOING, error),
    })
}
