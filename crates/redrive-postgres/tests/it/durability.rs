//! Whether what is committed stays.

use redrive_postgres::SESSION_SETTINGS;
use redrive_store::Store;

use crate::server::Database;

/// What a session of ours makes of a setting of the database.
async fn in_a_session(database: &Database, setting: &str) -> String {
    let admin = database.raw().await;
    let set = format!("ALTER DATABASE {} SET synchronous_commit = {setting}", database.name);
    admin.batch_execute(&set).await.unwrap();
    let raw = database.raw().await;
    raw.batch_execute(SESSION_SETTINGS).await.unwrap();
    raw.query_one("SHOW synchronous_commit", &[]).await.unwrap().get(0)
}

// OPS-1
#[tokio::test]
async fn a_commit_waits_for_the_disk_whatever_the_database_says() {
    let database = Database::migrated().await;
    assert_eq!(in_a_session(&database, "off").await, "on");
    let doubts = database.store().await.durability_doubts().await.unwrap();
    assert!(!doubts.iter().any(|doubt| doubt.contains("synchronous_commit")), "{doubts:?}");
}

#[tokio::test]
async fn which_replicas_are_waited_for_is_left_to_those_who_run_them() {
    let database = Database::migrated().await;
    for chosen in ["local", "remote_write", "on", "remote_apply"] {
        assert_eq!(in_a_session(&database, chosen).await, chosen);
    }
}

#[tokio::test]
async fn a_server_that_does_not_write_to_its_disk_is_told() {
    let database = Database::migrated().await;
    let raw = database.raw().await;
    let fsync: String = raw.query_one("SHOW fsync", &[]).await.unwrap().get(0);
    let doubts = database.store().await.durability_doubts().await.unwrap();
    let told = doubts.iter().any(|doubt| doubt == "fsync is off on the server");
    assert_eq!(told, fsync == "off", "{doubts:?}");
}
