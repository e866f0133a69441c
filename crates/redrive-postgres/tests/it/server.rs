//! The server that the tests use, and a database of its own for each of them.

use std::{
    env,
    sync::atomic::{AtomicU32, Ordering},
};

use jiff::Timestamp;
use redrive_postgres::{MIGRATIONS, PostgresMigrator, PostgresOptions, PostgresStore};
use redrive_store::{Migrator, latest_version};
use tokio::sync::OnceCell;
use tokio_postgres::{Client, Config, NoTls};

/// Where `scripts/postgres` says its server is. It is ours alone: databases are left to it.
pub(crate) fn server_url() -> String {
    env::var("REDRIVE_TEST_POSTGRES_URL").expect(
        "REDRIVE_TEST_POSTGRES_URL is not set; run these tests as \
         `scripts/postgres cargo test -p redrive-postgres`",
    )
}

/// A plain connection, for what the store would never do.
pub(crate) async fn connect(url: &str) -> Client {
    let config: Config = url.parse().unwrap();
    let (client, connection) = config.connect(NoTls).await.expect("the test server answers");
    tokio::spawn(connection);
    client
}

/// A name that no other test, process or earlier run has.
fn fresh_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("test_{}_{number}", std::process::id())
}

/// A database of a test's own.
pub(crate) struct Database {
    pub(crate) name: String,
    pub(crate) url: String,
}

impl Database {
    /// With nothing in it.
    pub(crate) async fn empty() -> Self {
        Self::create("").await
    }

    /// With the newest schema.
    pub(crate) async fn migrated() -> Self {
        static TEMPLATE: OnceCell<String> = OnceCell::const_new();
        let template = TEMPLATE.get_or_init(|| async {
            let database = Self::empty().await;
            database.migrate_to(latest_version(MIGRATIONS)).await;
            database.name
        });
        Self::create(&format!("TEMPLATE {}", template.await)).await
    }

    /// With the clauses of CREATE DATABASE that are given.
    pub(crate) async fn create(clauses: &str) -> Self {
        let name = fresh_name();
        let admin = connect(&server_url()).await;
        admin.batch_execute(&format!("CREATE DATABASE {name} {clauses}")).await.unwrap();
        Self { url: url_of(&name), name }
    }

    pub(crate) fn migrator(&self) -> PostgresMigrator {
        PostgresMigrator::new(&self.url, &PostgresOptions::default()).unwrap()
    }

    pub(crate) async fn migrate_to(&self, version: u32) {
        self.migrator().migrate_to(version, Timestamp::UNIX_EPOCH).await.unwrap();
    }

    pub(crate) async fn store(&self) -> PostgresStore {
        PostgresStore::connect(&self.url, PostgresOptions::default()).await.unwrap()
    }

    /// A plain connection to it.
    pub(crate) async fn raw(&self) -> Client {
        connect(&self.url).await
    }
}

/// The server's URL with another database.
pub(crate) fn url_of(database: &str) -> String {
    let url = server_url();
    let (server, _) = url.rsplit_once('/').unwrap();
    format!("{server}/{database}")
}

/// The server's URL with another user and password.
pub(crate) fn url_as(user: &str, password: &str, database: &str) -> String {
    let url = url_of(database);
    let (_, host) = url.split_once('@').unwrap();
    format!("postgres://{user}:{password}@{host}")
}
