//! Stores to measure in: a SQLite file in the folder, and a fresh PostgreSQL database.

use std::{
    env,
    sync::atomic::{AtomicU32, Ordering},
};

use redrive::{Clock, StoreUrl, SystemClock, migrator};
use tokio_postgres::NoTls;

use crate::bench_folder::BenchFolder;

/// A store of each kind, as `--store` names it.
pub(crate) fn one_of_each(folder: &BenchFolder) -> [String; 2] {
    [format!("sqlite:{}", folder.path().join("store.db").display()), fresh_postgres()]
}

/// Creates an empty database on the throwaway server that `scripts/postgres` starts.
fn fresh_postgres() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let server = env::var("REDRIVE_TEST_POSTGRES_URL").expect(
        "REDRIVE_TEST_POSTGRES_URL names the PostgreSQL server of the tests; \
         run them with scripts/test, or with scripts/postgres cargo test",
    );
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("bench_{}_{number}", std::process::id());
    block_on(async {
        let (client, connection) = tokio_postgres::connect(&server, NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        drop(client);
        connection.await.unwrap().unwrap();
    });
    let (base, _) = server.rsplit_once('/').unwrap();
    format!("{base}/{name}")
}

pub(crate) fn migrate(store: &str) {
    let migrator = migrator(&url(store)).unwrap();
    block_on(migrator.migrate_to(migrator.latest(), SystemClock.now())).unwrap();
}

/// The version of the schema; 0 in a database without it.
pub(crate) fn schema_version(store: &str) -> u32 {
    let migrator = migrator(&url(store)).unwrap();
    block_on(migrator.status()).unwrap().current()
}

fn url(store: &str) -> StoreUrl {
    store.parse().unwrap()
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}
