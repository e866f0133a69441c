//! A connection in use: bounded, pipelined, and never handed on in doubt.
//!
//! Statements of one exchange are sent together and answered in order, so a transaction costs one
//! round trip. A connection that was left in the middle of something (the caller went away, the
//! server did not answer, the connection broke) is closed instead of going back to the pool.

use std::{borrow::Cow, future::poll_fn, pin::Pin, task::Poll, time::Duration};

use deadpool_postgres::Object;
use redrive_store::{Error, Result};
use tokio::time::timeout;
use tokio_postgres::Row;

use crate::{bound_query::BoundQuery, connection::time_limits, error, pool::patience};

/// Tries at a transaction that others get in the way of.
const MAX_CONFLICTS: u32 = 5;

/// A connection in use.
pub(crate) struct Session {
    client: Option<Object>,
    patience: Duration,
    /// Whether the plans it keeps are to be made again before it is used.
    forget_plans: bool,
    /// Whether an answer is outstanding.
    waiting: bool,
    /// Whether a transaction is open between two exchanges.
    open: bool,
    /// What it is used for, for error messages.
    doing: Cow<'static, str>,
}

impl Session {
    pub(crate) fn new(
        client: Object,
        patience: Duration,
        forget_plans: bool,
        doing: Cow<'static, str>,
    ) -> Self {
        let client = Some(client);
        Self { client, patience, forget_plans, waiting: false, open: false, doing }
    }

    /// Runs one statement in a transaction of its own.
    pub(crate) async fn query(&mut self, query: BoundQuery<'_>) -> Result<Vec<Row>> {
        self.exchange(&[Message::Statement(query)]).await.map(last)
    }

    /// Runs statements in one transaction, in one round trip. Answers come in their order.
    pub(crate) async fn transaction(
        &mut self,
        queries: &[BoundQuery<'_>],
    ) -> Result<Vec<Vec<Row>>> {
        self.transaction_begun_by("BEGIN", queries).await
    }

    /// The same, begun by a script that may change settings for it.
    pub(crate) async fn transaction_begun_by(
        &mut self,
        begin: &str,
        queries: &[BoundQuery<'_>],
    ) -> Result<Vec<Vec<Row>>> {
        let mut messages = vec![Message::Script(begin)];
        messages.extend(queries.iter().copied().map(Message::Statement));
        messages.push(Message::Script("COMMIT"));
        let mut answers = self.exchange(&messages).await?;
        answers.pop();
        Ok(answers.into_iter().skip(1).collect())
    }

    /// Begins a transaction with a statement. Until [`Session::commit`], dropping the session rolls
    /// it back.
    pub(crate) async fn begin(&mut self, query: BoundQuery<'_>) -> Result<Vec<Row>> {
        self.begin_all(&[query]).await.map(last)
    }

    /// Begins a transaction with several statements, in one round trip. Answers come in their order.
    pub(crate) async fn begin_all(&mut self, queries: &[BoundQuery<'_>]) -> Result<Vec<Vec<Row>>> {
        let mut messages = vec![Message::Script("BEGIN")];
        messages.extend(queries.iter().copied().map(Message::Statement));
        let answers = self.exchange(&messages).await;
        self.open = true;
        if answers.is_err() && !self.waiting {
            self.open = self.exchange_once(&[Message::Script("ROLLBACK")]).await.is_err();
        }
        Ok(answers?.into_iter().skip(1).collect())
    }

    /// Runs several statements in the transaction that was begun, in one round trip.
    pub(crate) async fn continue_all(
        &mut self,
        queries: &[BoundQuery<'_>],
    ) -> Result<Vec<Vec<Row>>> {
        let messages: Vec<Message<'_>> = queries.iter().copied().map(Message::Statement).collect();
        self.exchange(&messages).await
    }

    /// Ends a transaction that was begun with several statements, in one round trip.
    pub(crate) async fn commit_all(&mut self, queries: &[BoundQuery<'_>]) -> Result<Vec<Vec<Row>>> {
        let mut messages: Vec<Message<'_>> =
            queries.iter().copied().map(Message::Statement).collect();
        messages.push(Message::Script("COMMIT"));
        redrive_store::failpoint!("postgres.session.committing");
        let mut answers = self.exchange(&messages).await?;
        redrive_store::failpoint!("postgres.session.committed");
        self.open = false;
        answers.pop();
        Ok(answers)
    }

    /// Ends a transaction that was begun.
    pub(crate) async fn commit(&mut self) -> Result<()> {
        self.commit_all(&[]).await.map(drop)
    }

    /// Runs statements that have no values and no answers.
    pub(crate) async fn script(&mut self, sql: &str) -> Result<()> {
        self.exchange(&[Message::Script(sql)]).await.map(drop)
    }

    /// Lets statements take longer from here on, for as long as the connection lasts.
    pub(crate) async fn allow(&mut self, limit: Duration) -> Result<()> {
        self.script(&time_limits(limit)).await?;
        self.patience = patience(limit);
        Ok(())
    }

    /// Says what the session is used for from here on.
    pub(crate) fn now_doing(&mut self, doing: impl Into<Cow<'static, str>>) {
        self.doing = doing.into();
    }

    /// Sends messages together and waits for their answers. Where no transaction was open before, a
    /// conflict with other transactions has undone everything, and it is all sent again.
    async fn exchange(&mut self, messages: &[Message<'_>]) -> Result<Vec<Vec<Row>>> {
        for _ in 1..MAX_CONFLICTS {
            match self.exchange_once(messages).await {
                Err(Failure::Database(error)) if error::is_conflict(&error) && !self.open => {
                    // Ends the transaction if one was begun; a warning if not.
                    let rollback = self.exchange_once(&[Message::Script("ROLLBACK")]).await;
                    rollback.map_err(|failure| failure.into_error(&self.doing))?;
                }
                answers => return answers.map_err(|failure| failure.into_error(&self.doing)),
            }
        }
        let answers = self.exchange_once(messages).await;
        answers.map_err(|failure| failure.into_error(&self.doing))
    }

    async fn exchange_once(&mut self, messages: &[Message<'_>]) -> Result<Vec<Vec<Row>>, Failure> {
        let Some(client) = &self.client else {
            return Err(Failure::Closed);
        };
        self.waiting = true;
        let answered = timeout(self.patience, send_all(client, self.forget_plans, messages)).await;
        self.forget_plans = false;
        let answers = match answered {
            Ok(answers) => answers.map_err(Failure::Database),
            Err(_) => Err(Failure::TimedOut(self.patience)),
        };
        self.waiting = match &answers {
            Ok(_) => false,
            Err(Failure::Database(error)) => !error::leaves_connection_usable(error),
            Err(Failure::TimedOut(_) | Failure::Closed) => true,
        };
        answers
    }
}

/// A connection in doubt is closed; the pool makes another when it needs one.
impl Drop for Session {
    fn drop(&mut self) {
        if (self.waiting || self.open)
            && let Some(client) = self.client.take()
        {
            drop(Object::take(client));
        }
    }
}

/// What is sent.
#[derive(Clone, Copy)]
enum Message<'a> {
    /// Text, for what has no values and no answer.
    Script(&'a str),
    /// A prepared statement.
    Statement(BoundQuery<'a>),
}

enum Failure {
    Database(tokio_postgres::Error),
    TimedOut(Duration),
    Closed,
}

impl Failure {
    fn into_error(self, doing: &str) -> Error {
        match self {
            Self::Database(source) => error::database(doing, source),
            Self::TimedOut(patience) => error::timed_out(doing, patience),
            Self::Closed => Error::Unavailable {
                doing: doing.to_owned(),
                source: "the connection is closed".into(),
            },
        }
    }
}

type Answer = Result<Vec<Row>, tokio_postgres::Error>;

/// Prepares what is not prepared yet, then sends everything before it waits for anything. All answers
/// are taken, also after an error, so that the connection is left with none outstanding.
async fn send_all(
    client: &Object,
    forget_plans: bool,
    messages: &[Message<'_>],
) -> Result<Vec<Vec<Row>>, tokio_postgres::Error> {
    let mut sending: Vec<Pin<Box<dyn Future<Output = Answer> + Send + '_>>> = Vec::new();
    let forget = forget_plans.then_some(Message::Script("DISCARD PLANS"));
    for message in forget.iter().chain(messages) {
        match *message {
            Message::Script(sql) => sending.push(Box::pin(async move {
                client.batch_execute(sql).await.map(|()| Vec::new())
            })),
            Message::Statement(bound) => {
                let statement = client.prepare_cached(bound.query.sql()).await?;
                sending.push(Box::pin(async move {
                    client.query(&statement, &bound.ordered_values()).await
                }));
            }
        }
    }
    let mut answers = in_order(sending).await;
    if forget_plans {
        answers.remove(0)?;
    }
    answers.into_iter().collect()
}

/// Polls futures in order until all are done. A client sends a message when its future is first
/// polled, so the order here is the order on the wire.
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

fn last(mut answers: Vec<Vec<Row>>) -> Vec<Row> {
    answers.pop().unwrap_or_default()
}
