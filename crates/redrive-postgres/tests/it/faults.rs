//! Connections that break, hang, or are left in the middle of something.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use redrive_core::RunId;
use redrive_postgres::{PostgresOptions, PostgresStore};
use redrive_store::{Error, NewRun, Runs, Selection, Store, SubmittedRun};
use serde_json::json;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_postgres::Client;

use crate::server::Database;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn keyed(key: &str) -> NewRun {
    NewRun::new("q", &json!(1), NOW).and_then(|run| run.with_idempotency_key(key)).unwrap()
}

/// One connection, so that every call meets the one before.
async fn lone(database: &Database, statement_timeout: Duration) -> Arc<PostgresStore> {
    let options =
        PostgresOptions { max_connections: 1, statement_timeout, ..PostgresOptions::default() };
    Arc::new(PostgresStore::connect(&database.url, options).await.unwrap())
}

const LONG: Duration = Duration::from_secs(30);

/// Waits until a session of a store waits for a lock. The server is asked again and again.
pub(crate) async fn until_blocked(raw: &Client) -> i32 {
    until_so_many_are_blocked(raw, 1).await
}

/// Returns one of them.
pub(crate) async fn until_so_many_are_blocked(raw: &Client, count: usize) -> i32 {
    let sql = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()
               AND application_name = 'redrive' AND wait_event_type = 'Lock'";
    loop {
        let blocked = raw.query(sql, &[]).await.unwrap();
        if blocked.len() == count {
            return blocked[0].get(0);
        }
    }
}

fn insert(key: &str) -> String {
    format!(
        "INSERT INTO redrive.runs (queue, payload, submitted_at, idempotency_key)
         VALUES ('q', '1', 'epoch', '{key}')"
    )
}

/// A transaction that has a run under a key, and so holds up whoever submits another.
async fn holding(database: &Database, key: &str) -> Client {
    let raw = database.raw().await;
    raw.batch_execute("BEGIN").await.unwrap();
    raw.batch_execute(&insert(key)).await.unwrap();
    raw
}

// OPS-1
#[tokio::test]
async fn a_connection_that_the_server_ended_is_replaced() {
    let database = Database::migrated().await;
    let store = lone(&database, LONG).await;
    let holder = holding(&database, "k").await;
    let call = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.submit_runs(&[keyed("k")], NOW).await }
    });
    let raw = database.raw().await;
    let pid = until_blocked(&raw).await;
    raw.execute("SELECT pg_terminate_backend($1)", &[&pid]).await.unwrap();
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");

    holder.batch_execute("ROLLBACK").await.unwrap();
    let submitted = store.submit_runs(&[keyed("k")], NOW).await.unwrap();
    assert!(matches!(submitted[..], [SubmittedRun::Accepted(_)]), "{submitted:?}");
}

/// All at once, as when the server restarts. A call may still meet a connection whose end it has not
/// heard of; the next one does not.
#[tokio::test]
async fn after_a_restart_of_the_server_the_store_goes_on() {
    let database = Database::migrated().await;
    let store = lone(&database, LONG).await;
    store.ping().await.unwrap();
    let sql = "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity
               WHERE datname = current_database() AND application_name = 'redrive'";
    let ended: i64 = database.raw().await.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(ended, 1);
    if let Err(error) = store.ping().await {
        assert!(error.is_transient(), "{error:?}");
        store.ping().await.unwrap();
    }
}

// OPS-1
#[tokio::test]
async fn a_statement_that_takes_too_long_is_ended() {
    let database = Database::migrated().await;
    let store = lone(&database, Duration::from_secs(1)).await;
    let holder = holding(&database, "k").await;
    let error = store.submit_runs(&[keyed("k"), keyed("other")], NOW).await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("statement timeout"), "{cause}");

    holder.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(
        store.runs_page(&Selection::default(), RunId(0), 10.into()).await.unwrap(),
        [],
        "nothing was written"
    );
    store.submit_runs(&[keyed("k")], NOW).await.unwrap();
}

/// A way to the server that can be blocked: everything sent from then on is lost.
async fn blockable(database: &Database) -> (String, watch::Sender<bool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (credentials, rest) = database.url.split_once('@').unwrap();
    let (host, name) = rest.split_once('/').unwrap();
    let (host, url) = (host.to_owned(), format!("{credentials}@127.0.0.1:{port}/{name}"));
    let (block, blocked) = watch::channel(false);
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let (host, mut blocked) = (host.clone(), blocked.clone());
            tokio::spawn(async move {
                let mut far = TcpStream::connect(host).await.unwrap();
                let until_blocked = async { drop(blocked.wait_for(|blocked| *blocked).await) };
                tokio::select! {
                    _ = copy_bidirectional(&mut near, &mut far) => return,
                    () = until_blocked => {}
                }
                // Both ends stay open, and nobody reads them while the block lasts.
                drop(blocked.wait_for(|blocked| !*blocked).await);
            });
        }
    });
    (url, block)
}

// OPS-1
#[tokio::test]
async fn a_connection_that_hangs_is_given_up_on() {
    let database = Database::migrated().await;
    let (url, block) = blockable(&database).await;
    let options = PostgresOptions {
        max_connections: 1,
        statement_timeout: Duration::from_secs(1),
        ..PostgresOptions::default()
    };
    let store = PostgresStore::connect(&url, options).await.unwrap();
    block.send(true).unwrap();
    let error = store.ping().await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("no answer within 1.5 s"), "{cause}");

    block.send(false).unwrap();
    store.ping().await.expect("a new connection is made");
}

/// Two that submit the same keys in opposite orders wait for each other; the server ends one of them.
/// The server looks for deadlocks once, a while after a wait began. So the store must be the last to
/// begin waiting: a third transaction holds it up until then.
#[tokio::test]
async fn a_deadlock_is_tried_again() {
    let mut database = Database::migrated().await;
    database.url += "?options=-c%20deadlock_timeout%3D10ms";
    let store = lone(&database, LONG).await;
    let other = holding(&database, "two").await;
    other.batch_execute("SET deadlock_timeout = '1h'").await.unwrap();
    let gate = holding(&database, "gate").await;
    let call = tokio::spawn({
        let store = Arc::clone(&store);
        let batch = ["one", "gate", "two"].map(keyed);
        async move { store.submit_runs(&batch, NOW).await }
    });
    let raw = database.raw().await;
    until_blocked(&raw).await;
    let other = tokio::spawn(async move {
        other.batch_execute(&insert("one")).await.unwrap();
        other.batch_execute("COMMIT").await.unwrap();
    });
    let waiting = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while raw.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) < 2 {}
    gate.batch_execute("ROLLBACK").await.unwrap();

    other.await.unwrap();
    let submitted = call.await.unwrap().unwrap();
    let [one, gate, two] = submitted[..] else { panic!("{submitted:?}") };
    assert!(matches!(one, SubmittedRun::Duplicate(_)), "{submitted:?}");
    assert!(matches!(gate, SubmittedRun::Accepted(_)), "{submitted:?}");
    assert!(matches!(two, SubmittedRun::Duplicate(_)), "{submitted:?}");
}

/// Dropped between its statements, a call leaves no transaction open for the next one to join.
#[tokio::test]
async fn a_caller_that_goes_away_leaves_a_clean_connection() {
    let database = Database::migrated().await;
    let store = lone(&database, LONG).await;
    let holder = holding(&database, "k").await;
    let call = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.submit_runs(&[keyed("mine"), keyed("k")], NOW).await }
    });
    until_blocked(&database.raw().await).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    holder.batch_execute("ROLLBACK").await.unwrap();
    let submitted = store.submit_runs(&[keyed("k")], NOW).await.unwrap();
    assert!(matches!(submitted[..], [SubmittedRun::Accepted(_)]), "{submitted:?}");
    let raw = database.raw().await;
    let sql = "SELECT count(*) FROM redrive.runs WHERE idempotency_key = 'mine'";
    let left: i64 = raw.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(left, 0, "what was not acknowledged was rolled back");
}

/// Callers wait for a free connection, in turn.
#[tokio::test]
async fn more_callers_than_connections_are_all_served() {
    let database = Database::migrated().await;
    let store = lone(&database, LONG).await;
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..100 {
        let store = Arc::clone(&store);
        calls.spawn(async move { store.submit_runs(&[keyed(&n.to_string())], NOW).await });
    }
    for answer in calls.join_all().await {
        assert!(matches!(answer.unwrap()[..], [SubmittedRun::Accepted(_)]));
    }
}
