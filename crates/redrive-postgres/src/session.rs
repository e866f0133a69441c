//! A connection in use: time-limited, pipelined, and returned to the pool only in a known state.
//!
//! The statements of one exchange are sent together and finished in order, so a transaction costs one round
//! trip. A session that is dropped with an answer outstanding or a transaction open (a cancelled caller, a
//! time-out, a broken connection) closes its connection.

use std::{borrow::Cow, future::poll_fn, pin::Pin, task::Poll, time::Duration};

use deadpool_postgres::Object;
use redrive_store::{Error, Result, Selection, SelectionSql, SqlDialect};
use tokio::time::timeout;
use tokio_postgres::Row;

use crate::{
    bound_query::{BoundQuery, SqlValue},
    columns::TermParameter,
    connection::time_limits,
    error,
    pool::client_timeout,
};

/// The answer to a query that was sent.
type PendingRows<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<Row>, tokio_postgres::Error>> + Send + 'a>>;

/// How often an exchange is sent if it keeps failing with deadlocks or serialization failures.
const MAX_CONFLICT_TRIES: u32 = 5;

pub(crate) struct Session {
    client: Option<Object>,
    client_timeout: Duration,
    /// Whether the next exchange discards the connection's cached plans first.
    discard_plans: bool,
    response_pending: bool,
    /// Whether a transaction stays open after the exchange.
    in_transaction: bool,
    /// The operation, for error messages.
    doing: Cow<'static, str>,
}

impl Session {
    pub(crate) fn new(
        client: Object,
        client_timeout: Duration,
        discard_plans: bool,
        doing: Cow<'static, str>,
    ) -> Self {
        let client = Some(client);
        Self {
            client,
            client_timeout,
            discard_plans,
            response_pending: false,
            in_transaction: false,
            doing,
        }
    }

    /// Runs one statement in a transaction of its own.
    pub(crate) async fn query(&mut self, query: BoundQuery<'_>) -> Result<Vec<Row>> {
        self.exchange(&[SessionMessage::Statement(query)]).await.map(last)
    }

    /// Runs a query over a selection of units, in a transaction of its own.
    pub(crate) async fn select(
        &mut self,
        query: BoundQuery<'_>,
        units: &SelectionSql,
        selection: &Selection,
    ) -> Result<Vec<Row>> {
        let mut values = query.ordered_values();
        let (sql, terms) = units.complete(query.query.sql(), selection, DIALECT, values.len());
        let terms: Vec<TermParameter> = terms.into_iter().map(TermParameter).collect();
        values.extend(terms.iter().map(|term| term as SqlValue<'_>));
        self.exchange(&[SessionMessage::Select { sql: &sql, values: &values }]).await.map(last)
    }

    /// Runs queries in one transaction and one round trip. Results are in the order of the queries.
    pub(crate) async fn transaction(
        &mut self,
        queries: &[BoundQuery<'_>],
    ) -> Result<Vec<Vec<Row>>> {
        self.transaction_with("BEGIN", queries).await
    }

    /// Like [`Session::transaction`], with a script for BEGIN that may change settings locally.
    pub(crate) async fn transaction_with(
        &mut self,
        begin: &str,
        queries: &[BoundQuery<'_>],
    ) -> Result<Vec<Vec<Row>>> {
        let mut messages = vec![SessionMessage::Script(begin)];
        messages.extend(queries.iter().copied().map(SessionMessage::Statement));
        messages.push(SessionMessage::Script("COMMIT"));
        let mut results = self.exchange(&messages).await?;
        results.pop();
        Ok(results.into_iter().skip(1).collect())
    }

    /// Begins a transaction with a query. Dropping the session before [`Session::commit`] rolls back.
    pub(crate) async fn begin(&mut self, query: BoundQuery<'_>) -> Result<Vec<Row>> {
        self.begin_all(&[query]).await.map(last)
    }

    /// Begins a transaction with several queries, in one round trip.
    pub(crate) async fn begin_all(&mut self, queries: &[BoundQuery<'_>]) -> Result<Vec<Vec<Row>>> {
        let mut messages = vec![SessionMessage::Script("BEGIN")];
        messages.extend(queries.iter().copied().map(SessionMessage::Statement));
        let results = self.exchange(&messages).await;
        self.in_transaction = true;
        if results.is_err() && !self.response_pending {
            self.in_transaction =
                self.exchange_once(&[SessionMessage::Script("ROLLBACK")]).await.is_err();
        }
        Ok(results?.into_iter().skip(1).collect())
    }

    pub(crate) fn is_in_transaction(&self) -> bool {
        self.in_transaction
    }

    /// Runs several queries in the open transaction, in one round trip.
    pub(crate) async fn continue_all(
        &mut self,
        queries: &[BoundQuery<'_>],
    ) -> Result<Vec<Vec<Row>>> {
        let messages: Vec<SessionMessage<'_>> =
            queries.iter().copied().map(SessionMessage::Statement).collect();
        self.exchange(&messages).await
    }

    /// Runs several queries in the open transaction and commits, in one round trip.
    pub(crate) async fn commit_all(&mut self, queries: &[BoundQuery<'_>]) -> Result<Vec<Vec<Row>>> {
        let mut messages: Vec<SessionMessage<'_>> =
            queries.iter().copied().map(SessionMessage::Statement).collect();
        messages.push(SessionMessage::Script("COMMIT"));
        redrive_store::failpoint!("postgres.session.committing");
        let mut results = self.exchange(&messages).await?;
        redrive_store::failpoint!("postgres.session.committed");
        self.in_transaction = false;
        results.pop();
        Ok(results)
    }

    /// Commits the open transaction.
    pub(crate) async fn commit(&mut self) -> Result<()> {
        self.commit_all(&[]).await.map(drop)
    }

    /// Runs SQL that has no parameters and no results.
    pub(crate) async fn script(&mut self, sql: &str) -> Result<()> {
        self.exchange(&[SessionMessage::Script(sql)]).await.map(drop)
    }

    /// Extends the time limit of statements for the rest of the connection's life.
    pub(crate) async fn extend_time_limit(&mut self, limit: Duration) -> Result<()> {
        self.script(&time_limits(limit)).await?;
        self.client_timeout = client_timeout(limit);
        Ok(())
    }

    /// Names the operation that error messages mention from here on.
    pub(crate) fn set_doing(&mut self, doing: impl Into<Cow<'static, str>>) {
        self.doing = doing.into();
    }

    /// Sends messages together and waits for all results. If no transaction was open before, a conflict
    /// with another transaction has rolled everything back, and the messages are sent again.
    async fn exchange(&mut self, messages: &[SessionMessage<'_>]) -> Result<Vec<Vec<Row>>> {
        for _ in 1..MAX_CONFLICT_TRIES {
            match self.exchange_once(messages).await {
                Err(ExchangeError::Database(error))
                    if error::is_conflict(&error) && !self.in_transaction =>
                {
                    // Without a transaction this is only a warning.
                    let rollback = self.exchange_once(&[SessionMessage::Script("ROLLBACK")]).await;
                    rollback.map_err(|failure| failure.into_error(&self.doing))?;
                }
                results => return results.map_err(|failure| failure.into_error(&self.doing)),
            }
        }
        let results = self.exchange_once(messages).await;
        results.map_err(|failure| failure.into_error(&self.doing))
    }

    async fn exchange_once(
        &mut self,
        messages: &[SessionMessage<'_>],
    ) -> Result<Vec<Vec<Row>>, ExchangeError> {
        let Some(client) = &self.client else {
            return Err(ExchangeError::Closed);
        };
        self.response_pending = true;
        let finished =
            timeout(self.client_timeout, send_all(client, self.discard_plans, messages)).await;
        self.discard_plans = false;
        let results = match finished {
            Ok(results) => results.map_err(ExchangeError::Database),
            Err(_) => Err(ExchangeError::TimedOut(self.client_timeout)),
        };
        self.response_pending = match &results {
            Ok(_) => false,
            Err(ExchangeError::Database(error)) => !error::leaves_connection_usable(error),
            Err(ExchangeError::TimedOut(_) | ExchangeError::Closed) => true,
        };
        results
    }
}

/// Closes a connection in an unknown state; the pool makes another when it needs one.
impl Drop for Session {
    fn drop(&mut self) {
        if (self.response_pending || self.in_transaction)
            && let Some(client) = self.client.take()
        {
            drop(Object::take(client));
        }
    }
}

#[derive(Clone, Copy)]
enum SessionMessage<'a> {
    /// SQL without parameters and results; may be several statements.
    Script(&'a str),
    Statement(BoundQuery<'a>),
    Select {
        sql: &'a str,
        values: &'a [SqlValue<'a>],
    },
}

const DIALECT: SqlDialect =
    SqlDialect { position: "strpos", stage_name: "run.stages[samples.stage + 1]", parameter: '$' };

enum ExchangeError {
    Database(tokio_postgres::Error),
    TimedOut(Duration),
    Closed,
}

impl ExchangeError {
    fn into_error(self, doing: &str) -> Error {
        match self {
            Self::Database(source) => error::database(doing, source),
            Self::TimedOut(client_timeout) => error::timed_out(doing, client_timeout),
            Self::Closed => Error::Unavailable {
                doing: doing.to_owned(),
                source: "the connection is closed".into(),
            },
        }
    }
}

/// Prepares queries that are not prepared yet, then sends all messages before it waits for any result. Reads
/// all results, also after an error, so that none is outstanding on the connection.
async fn send_all(
    client: &Object,
    discard_plans: bool,
    messages: &[SessionMessage<'_>],
) -> Result<Vec<Vec<Row>>, tokio_postgres::Error> {
    let mut sending: Vec<PendingRows<'_>> = Vec::new();
    let discard = discard_plans.then_some(SessionMessage::Script("DISCARD PLANS"));
    for message in discard.iter().chain(messages) {
        match *message {
            SessionMessage::Script(sql) => sending.push(Box::pin(async move {
                client.batch_execute(sql).await.map(|()| Vec::new())
            })),
            SessionMessage::Select { sql, values } => {
                // Not cached: every combination of terms is a statement of its own.
                let statement = client.prepare(sql).await?;
                sending.push(Box::pin(async move { client.query(&statement, values).await }));
            }
            SessionMessage::Statement(bound) => {
                let statement = client.prepare_cached(bound.query.sql()).await?;
                sending.push(Box::pin(async move {
                    client.query(&statement, &bound.ordered_values()).await
                }));
            }
        }
    }
    let mut results = in_order(sending).await;
    if discard_plans {
        results.remove(0)?;
    }
    results.into_iter().collect()
}

/// Polls futures in order until all are done. The client sends a message when its future is first polled, so
/// this order is the order on the wire.
async fn in_order<T>(mut futures: Vec<Pin<Box<dyn Future<Output = T> + Send + '_>>>) -> Vec<T> {
    let mut done: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    poll_fn(move |context| {
        let mut ready = true;
        for (future, done) in futures.iter_mut().zip(&mut done) {
            if done.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(value) => *done = Some(value),
                    Poll::Pending => ready = false,
                }
            }
        }
        redrive_store::failpoint!("postgres.session.sent");
        if ready { Poll::Ready(done.drain(..).flatten().collect()) } else { Poll::Pending }
    })
    .await
}

fn last(mut results: Vec<Vec<Row>>) -> Vec<Row> {
    results.pop().unwrap_or_default()
}
