//! Databases for the program to work on: a SQLite file in its folder, or a fresh PostgreSQL database.

use std::{
    env,
    sync::atomic::{AtomicU32, Ordering},
};

use tokio_postgres::{Client, NoTls};

use crate::folder::Folder;

/// A store of each kind, as `--store` names it.
pub(crate) fn one_of_each(folder: &Folder) -> [String; 2] {
    [format!("sqlite:{}", folder.path().join("store.db").display()), fresh_postgres()]
}

/// A new, empty database on the throwaway server.
pub(crate) fn fresh_postgres() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("cli_{}_{number}", std::process::id());
    execute(&server(), &format!("CREATE DATABASE {name}"));
    let url = server();
    let (place, _) = url.rsplit_once('/').unwrap();
    format!("{place}/{name}")
}

/// Removes a database that a test made, where there are so many that the disk would notice.
#[cfg(feature = "failpoints")]
pub(crate) fn drop_postgres(url: &str) {
    let (_, name) = url.rsplit_once('/').unwrap();
    execute(&server(), &format!("DROP DATABASE {name} WITH (FORCE)"));
}

/// The server's URL, which `scripts/postgres` provides.
pub(crate) fn server() -> String {
    env::var("REDRIVE_TEST_POSTGRES_URL").expect(
        "REDRIVE_TEST_POSTGRES_URL names the PostgreSQL server of the tests; \
         run them with scripts/test, or with scripts/postgres cargo test",
    )
}

/// Runs statements on a PostgreSQL database.
pub(crate) fn execute(url: &str, sql: &str) {
    on_postgres(url, async |client| client.batch_execute(sql).await.unwrap());
}

/// The texts that a query of one column finds in a store, as `--store` names it.
pub(crate) fn texts(store: &str, sql: &str) -> Vec<String> {
    if let Some(path) = store.strip_prefix("sqlite:") {
        let connection = rusqlite::Connection::open(path).unwrap();
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        return rows.map(Result::unwrap).collect();
    }
    on_postgres(store, async |client| {
        client.batch_execute("SET search_path = redrive").await.unwrap();
        let rows = client.query(sql, &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    })
}

fn on_postgres<T>(url: &str, work: impl AsyncFnOnce(&Client) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        let answer = work(&client).await;
        drop(client);
        connection.await.unwrap().unwrap();
        answer
    })
}
