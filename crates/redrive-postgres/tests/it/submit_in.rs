//! Runs that are submitted in a transaction of somebody else's.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use redrive_postgres::{PostgresStore, submit_in};
use redrive_store::{Error, NewRun, RunRecord, Runs, Selection, Store, SubmittedRun};
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_postgres::{Client, IsolationLevel};

use crate::server::{Database, connect, url_as};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// What takes longer does not happen.
const PATIENCE: Duration = Duration::from_secs(20);

fn run(payload: Value) -> NewRun {
    NewRun::new("q", &payload, NOW).unwrap()
}

fn keyed(key: &str, payload: Value) -> NewRun {
    run(payload).with_idempotency_key(key).unwrap()
}

async fn stored(store: &PostgresStore) -> Vec<RunRecord> {
    store.runs_page(&Selection::default(), redrive_core::RunId(0), 100.into()).await.unwrap()
}

/// A database with a table of somebody else's, a store on it, and that somebody's connection.
async fn shop() -> (Database, PostgresStore, Client) {
    let database = Database::migrated().await;
    let (store, client) = (database.store().await, database.raw().await);
    client.batch_execute("CREATE TABLE orders (id bigint PRIMARY KEY)").await.unwrap();
    (database, store, client)
}

async fn orders(client: &Client) -> i64 {
    client.query_one("SELECT count(*) FROM orders", &[]).await.unwrap().get(0)
}

const ORDER: &str = "INSERT INTO orders VALUES (1)";

// RUN-6
#[tokio::test]
async fn what_is_committed_is_in_the_queue_as_if_it_had_been_submitted() {
    let (_database, store, mut client) = shop().await;
    let later = NOW + SignedDuration::from_secs(60);
    let runs = [
        keyed("a", json!({ "b": 1, "a": 2 })).with_category("fast").unwrap(),
        run(json!("text \u{0}")),
        run(json!(3)).with_not_before(later),
    ];
    let transaction = client.transaction().await.unwrap();
    transaction.execute(ORDER, &[]).await.unwrap();
    let submitted = submit_in(&transaction, &runs, NOW).await.unwrap();
    assert_eq!(stored(&store).await, [], "not yet");
    transaction.commit().await.unwrap();

    let ours = stored(&store).await;
    let ids: Vec<_> = ours.iter().map(|run| SubmittedRun::Accepted(run.id)).collect();
    assert_eq!(submitted, ids);
    assert_eq!(orders(&client).await, 1);

    let (_database, elsewhere, _client) = shop().await;
    elsewhere.submit_runs(&runs, NOW).await.unwrap();
    let theirs = stored(&elsewhere).await;
    assert_eq!(ours, theirs, "the same rows, whoever wrote them");
}

#[tokio::test]
async fn who_waits_for_work_hears_of_it_at_the_commit() {
    let (_database, store, mut client) = shop().await;
    let mut wakes = store.wakes();
    timeout(PATIENCE, wakes.changed()).await.expect("it listens").unwrap();
    let transaction = client.transaction().await.unwrap();
    submit_in(&transaction, &[run(json!(1)), run(json!(2))], NOW).await.unwrap();
    assert!(!wakes.has_changed().unwrap(), "there is nothing to claim yet");
    transaction.commit().await.unwrap();
    timeout(PATIENCE, wakes.changed()).await.expect("the commit is heard of").unwrap();
    assert_eq!(stored(&store).await.len(), 2);
}

// RUN-6
#[tokio::test]
async fn what_is_rolled_back_or_dropped_was_never_there() {
    let (_database, store, mut client) = shop().await;
    for ends in ["rolled back", "dropped"] {
        let transaction = client.transaction().await.unwrap();
        transaction.execute(ORDER, &[]).await.unwrap();
        submit_in(&transaction, &[keyed("a", json!(1))], NOW).await.unwrap();
        match ends {
            "dropped" => drop(transaction),
            _ => transaction.rollback().await.unwrap(),
        }
        assert_eq!(orders(&client).await, 0, "{ends}");
        assert_eq!(stored(&store).await, [], "{ends}");
    }
    // The key is free.
    let submitted = store.submit_runs(&[keyed("a", json!(2))], NOW).await.unwrap();
    assert!(matches!(submitted[..], [SubmittedRun::Accepted(_)]));
}

// RUN-6
#[tokio::test]
async fn a_panic_before_the_commit_leaves_nothing() {
    let (database, store, client) = shop().await;
    let mut theirs = database.raw().await;
    let task = tokio::spawn(async move {
        let transaction = theirs.transaction().await.unwrap();
        transaction.execute(ORDER, &[]).await.unwrap();
        submit_in(&transaction, &[keyed("a", json!(1))], NOW).await.unwrap();
        panic!("on purpose");
    });
    assert!(task.await.unwrap_err().is_panic());
    // Waits until the transaction that has the key is gone.
    let submitted = store.submit_runs(&[keyed("a", json!(2))], NOW).await.unwrap();
    assert!(matches!(submitted[..], [SubmittedRun::Accepted(_)]));
    assert_eq!((orders(&client).await, stored(&store).await.len()), (0, 1));
}

// RUN-6
#[tokio::test]
async fn a_statement_of_the_callers_that_fails_takes_the_runs_with_it() {
    let (_database, store, mut client) = shop().await;
    let transaction = client.transaction().await.unwrap();
    transaction.execute(ORDER, &[]).await.unwrap();
    submit_in(&transaction, &[run(json!(1))], NOW).await.unwrap();
    transaction.execute(ORDER, &[]).await.expect_err("the order is there already");
    let error = submit_in(&transaction, &[run(json!(2))], NOW).await.unwrap_err();
    assert!(matches!(error, Error::Database { .. }), "{error:?}");
    transaction.commit().await.unwrap();
    assert_eq!((orders(&client).await, stored(&store).await.len()), (0, 0));
}

#[tokio::test]
async fn a_savepoint_takes_only_its_own_runs_with_it() {
    let (_database, store, mut client) = shop().await;
    let mut transaction = client.transaction().await.unwrap();
    submit_in(&transaction, &[run(json!("kept"))], NOW).await.unwrap();
    let savepoint = transaction.transaction().await.unwrap();
    submit_in(&savepoint, &[run(json!("undone"))], NOW).await.unwrap();
    savepoint.rollback().await.unwrap();
    transaction.commit().await.unwrap();
    let payloads: Vec<_> = stored(&store).await.into_iter().map(|run| run.payload).collect();
    assert_eq!(payloads, [r#""kept""#]);
}

// RUN-6
#[tokio::test]
async fn idempotency_keys_mean_what_they_mean_elsewhere() {
    let (_database, store, mut client) = shop().await;
    let before = store.submit_runs(&[keyed("before", json!(1))], NOW).await.unwrap();
    let [SubmittedRun::Accepted(before)] = before[..] else { panic!("{before:?}") };

    let transaction = client.transaction().await.unwrap();
    assert_eq!(submit_in(&transaction, &[], NOW).await.unwrap(), []);
    let batch = [
        keyed("before", json!(1)),
        keyed("new", json!(2)),
        keyed("before", json!("other")),
        run(json!(3)),
        keyed("new", json!(2)),
        keyed("new", json!("other")),
    ];
    let submitted = submit_in(&transaction, &batch, NOW).await.unwrap();
    let SubmittedRun::Accepted(new) = submitted[1] else { panic!("{submitted:?}") };
    assert_eq!(submitted[0], SubmittedRun::Duplicate(before));
    assert_eq!(submitted[2], SubmittedRun::Conflict(before));
    assert!(matches!(submitted[3], SubmittedRun::Accepted(_)));
    assert_eq!(submitted[4..], [SubmittedRun::Duplicate(new), SubmittedRun::Conflict(new)]);
    let again = submit_in(&transaction, &batch[1..2], NOW).await.unwrap();
    assert_eq!(again, [SubmittedRun::Duplicate(new)], "it sees its own");
    transaction.commit().await.unwrap();
    assert_eq!(stored(&store).await.len(), 3);
}

/// Until somebody waits for a lock.
async fn until_blocked(client: &Client) {
    let sql = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let blocked = async {
        while client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, blocked).await.expect("the other submitter waits");
}

// RUN-6
#[tokio::test]
async fn whoever_submits_a_key_of_an_open_transaction_waits_for_its_end() {
    for commits in [true, false] {
        let (database, _store, mut client) = shop().await;
        let (other, watcher) = (database.store().await, database.raw().await);
        let transaction = client.transaction().await.unwrap();
        let ours = submit_in(&transaction, &[keyed("a", json!(1))], NOW).await.unwrap();
        let [SubmittedRun::Accepted(ours)] = ours[..] else { panic!("{ours:?}") };
        let task =
            tokio::spawn(async move { other.submit_runs(&[keyed("a", json!(1))], NOW).await });
        until_blocked(&watcher).await;
        if commits {
            transaction.commit().await.unwrap();
        } else {
            transaction.rollback().await.unwrap();
        }
        let theirs = task.await.unwrap().unwrap();
        match theirs[..] {
            [SubmittedRun::Duplicate(id)] => assert!(commits && id == ours),
            [SubmittedRun::Accepted(id)] => assert!(!commits && id != ours),
            _ => panic!("{theirs:?}"),
        }
    }
}

/// A pool hands the connection on: whoever has it next finds it as it was.
#[tokio::test]
async fn the_connection_is_left_as_it_was_whatever_its_search_path() {
    let (_database, store, mut client) = shop().await;
    // Things of the same names in the caller's schema, which stands even before the system's.
    let decoys = "CREATE SCHEMA decoy; CREATE TABLE decoy.runs (id int);
        CREATE FUNCTION decoy.pg_notify(text, text) RETURNS void LANGUAGE plpgsql
            AS 'BEGIN RAISE ''the wrong function''; END';
        SET search_path = decoy, pg_catalog";
    client.batch_execute(decoys).await.unwrap();
    let transaction = client.transaction().await.unwrap();
    submit_in(&transaction, &[keyed("a", json!(1)), keyed("a", json!(1))], NOW).await.unwrap();
    let left = async |sql: &str| -> String {
        let rows = transaction.simple_query(sql).await.unwrap();
        let row = rows.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        row.unwrap().to_owned()
    };
    assert_eq!(left("SHOW search_path").await, "decoy, pg_catalog");
    assert_eq!(left("SELECT count(*) FROM pg_prepared_statements").await, "0");
    transaction.commit().await.unwrap();
    assert_eq!(stored(&store).await.len(), 1);
}

#[tokio::test]
async fn a_transaction_of_a_pool_and_of_any_isolation_level_will_do() {
    let (database, store, mut client) = shop().await;
    for level in [IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
        let transaction = client.build_transaction().isolation_level(level).start().await.unwrap();
        submit_in(&transaction, &[keyed("a", json!(1))], NOW).await.unwrap();
        transaction.commit().await.unwrap();
    }
    let config: tokio_postgres::Config = database.url.parse().unwrap();
    let manager = deadpool_postgres::Manager::new(config, tokio_postgres::NoTls);
    let pool = deadpool_postgres::Pool::builder(manager).max_size(1).build().unwrap();
    let mut pooled = pool.get().await.unwrap();
    let transaction = pooled.transaction().await.unwrap();
    submit_in(&transaction, &[run(json!(2))], NOW).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(stored(&store).await.len(), 2);
}

// RUN-6
#[tokio::test]
async fn a_key_taken_after_a_strict_transaction_began_is_a_conflict_to_begin_again_from() {
    let (_database, store, mut client) = shop().await;
    let strict = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead);
    let transaction = strict.start().await.unwrap();
    transaction.execute(ORDER, &[]).await.unwrap();
    store.submit_runs(&[keyed("a", json!(1))], NOW).await.unwrap();
    let error = submit_in(&transaction, &[keyed("a", json!(1))], NOW).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    transaction.rollback().await.unwrap();
    assert_eq!((orders(&client).await, stored(&store).await.len()), (0, 1));
}

#[tokio::test]
async fn rights_to_the_runs_alone_are_enough_and_without_them_it_is_refused() {
    let (database, store, admin) = shop().await;
    let user = format!("shop_{}", database.name);
    let create = format!("CREATE ROLE {user} LOGIN PASSWORD 'secret'");
    let grant = format!(
        "GRANT USAGE ON SCHEMA redrive TO {user}; GRANT SELECT, INSERT ON redrive.runs TO {user};
        GRANT INSERT ON redrive.ready_runs, redrive.due_runs TO {user}"
    );
    admin.batch_execute(&create).await.unwrap();
    let mut client = connect(&url_as(&user, "secret", &database.name)).await;

    let transaction = client.transaction().await.unwrap();
    let error = submit_in(&transaction, &[run(json!(1))], NOW).await.unwrap_err();
    assert!(error.to_string().contains("lacks a permission"), "{error}");
    drop(transaction);

    admin.batch_execute(&grant).await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let runs = [keyed("a", json!(1)), keyed("a", json!(2))];
    submit_in(&transaction, &runs, NOW).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(stored(&store).await.len(), 1);
}

#[tokio::test]
async fn a_database_without_queues_is_told_apart() {
    let mut client = Database::empty().await.raw().await;
    let transaction = client.transaction().await.unwrap();
    let error = submit_in(&transaction, &[run(json!(1))], NOW).await.unwrap_err();
    assert!(error.to_string().contains("redrive db migrate"), "{error}");
}
