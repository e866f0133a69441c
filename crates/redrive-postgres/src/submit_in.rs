//! Submitting runs in a transaction of the caller's.

use jiff::Timestamp;
use redrive_store::{Error, NewRun, Result, SubmittedRun};
use tokio_postgres::{Row, Transaction, error::SqlState, types::Type};

use crate::{
    batch::each,
    bound_query::{BoundQuery, bind},
    error, queries,
    submit::{DOING, NewRunColumns, accepted, answers, refused_keys, taken},
};

/// Submits runs inside a transaction of the caller's: they are in their queue if and only if it
/// commits, together with whatever else it writes. Workers hear of them then.
///
/// Nothing is left behind on the connection, neither a prepared statement nor a setting, and the
/// caller's search path does not matter, so it may come from any pool. Its user needs `USAGE` on the
/// schema `redrive`, and `SELECT` and `INSERT` on `redrive.runs`.
///
/// The transaction may have any isolation level. A stricter one than the default may meet a key that
/// was taken after it began; that is a serialization failure, [`Error::Unavailable`]: begin again.
///
/// Idempotency keys mean what they mean elsewhere. While the transaction is open, whoever submits one
/// of its keys waits for its end: commit soon.
///
/// After an error, or when this future is dropped before it answers, roll the transaction back.
pub async fn submit_in(
    transaction: &Transaction<'_>,
    runs: &[NewRun],
    now: Timestamp,
) -> Result<Vec<SubmittedRun>> {
    if runs.is_empty() {
        return Ok(Vec::new());
    }
    let columns = NewRunColumns::of(runs, now);
    let keys = each(runs, NewRun::idempotency_key);
    let insert = bind!(queries::INSERT_RUNS, idempotency_key => &keys, ..NewRunColumns(columns));
    let types: &[&[Type]] = &[&[Type::TEXT_ARRAY], &NewRunColumns::TYPES];
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
    answers(runs, &accepted, &taken(&found)?)
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
            problem: "this database has no queues of Redrive's; name the right one, or make them \
                      with `redrive db migrate`"
                .to_owned(),
            source: Some(error.into()),
        },
        _ => error::database(DOING, error),
    })
}
