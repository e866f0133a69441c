//! Bare loops that ask for partitions: the same rows as a backfill, without the store.

use std::time::SystemTime;

use redrive::{LogicalDate, StoreUrl};
use rusqlite::{Connection, params};
use tokio_postgres::NoTls;

use super::contender::{at, failed};
use crate::exit::{Exit, Failure};

/// The source of its partitions.
const SOURCE: &str = "bare";

/// What the journal says of each.
const DETAILS: &str =
    r#"{"before":"no entry","command":"bench","flags":[],"lane":"backfill","reason":null}"#;

/// The state, the work and the journal of many partitions, in one statement.
const INSERT: &str = "
    WITH made AS (
        INSERT INTO redrive.partition_state (source, customer_id, query_name, logical_date, updated_at)
        SELECT $1, customer_id, 'daily', logical_date::date, $4
        FROM unnest($2::text[], $3::text[]) AS new (customer_id, logical_date)
        ON CONFLICT (source, customer_id, query_name, logical_date) DO NOTHING
        RETURNING id, customer_id, logical_date
    ), asked AS (
        INSERT INTO redrive.partition_work
            (partition_id, source, kind, lane, requested_at, requested_by, lease_epoch)
        SELECT id, $1, 'first', 'backfill', $4, 'bench', 0 FROM made
    )
    INSERT INTO redrive.journal (at, actor, action, unit, details)
    SELECT $4, 'bench', 'partition.backfill',
        'partition:' || $1 || '/' || customer_id || '/daily/' || logical_date, $5
    FROM made";

/// Days of customers.
pub(super) type Days = [(String, LogicalDate)];

/// A bare loop.
pub(super) enum PartitionLoop {
    Sqlite(Connection),
    Postgres(tokio_postgres::Client, tokio_postgres::Statement),
}

impl PartitionLoop {
    /// Opens the database the way the store does.
    pub(super) async fn open(url: &StoreUrl) -> Result<Self, Failure> {
        match url {
            StoreUrl::Postgres(url) => {
                let connected = tokio_postgres::connect(url.with_password(), NoTls).await;
                let (client, connection) = connected.map_err(failed)?;
                // It ends with the client; a broken connection shows in the client's calls.
                tokio::spawn(connection);
                let insert = client.prepare(INSERT).await.map_err(failed)?;
                Ok(Self::Postgres(client, insert))
            }
            StoreUrl::SqliteFile(path) => {
                let connection = Connection::open(path).map_err(failed)?;
                for (pragma, value) in [("synchronous", "full"), ("wal_autocheckpoint", "4096")] {
                    connection.pragma_update(None, pragma, value).map_err(failed)?;
                }
                Ok(Self::Sqlite(connection))
            }
            StoreUrl::SqliteMemory => {
                Err(Failure::new(Exit::Error, "a database in memory has one connection"))
            }
        }
    }

    /// Asks for a batch, in one transaction.
    pub(super) async fn insert(&self, days: &Days) -> Result<(), Failure> {
        match self {
            Self::Sqlite(connection) => insert_into_sqlite(connection, days),
            Self::Postgres(client, insert) => {
                let customers: Vec<&str> = days.iter().map(|(customer, _)| &**customer).collect();
                let dates: Vec<String> = days.iter().map(|(_, day)| day.to_string()).collect();
                let now = SystemTime::from(at(0));
                let values: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
                    [&SOURCE, &customers, &dates, &now, &DETAILS];
                client.execute(insert, &values).await.map(drop).map_err(failed)
            }
        }
    }
}

fn insert_into_sqlite(connection: &Connection, days: &Days) -> Result<(), Failure> {
    let statement = |name: &str| {
        let found = redrive_sqlite::QUERIES.iter().find(|(file, _)| *file == name);
        let sql = found.map(|(_, sql)| *sql).unwrap_or_default();
        connection.prepare_cached(sql).map_err(failed)
    };
    connection.execute_batch("BEGIN IMMEDIATE").map_err(failed)?;
    {
        let mut insert = statement("insert_partitions")?;
        let mut put = statement("put_partition_work")?;
        let mut journal = statement("insert_journal")?;
        let (now, no) = (at(0).as_microsecond(), None::<i64>);
        for (customer, day) in days {
            let day = day.to_string();
            let row = params![SOURCE, customer, "daily", day, now];
            let id: i64 = insert.query_row(row, |row| row.get(0)).map_err(failed)?;
            let work =
                params![id, SOURCE, "first", "backfill", now, "bench", no, no, 0, no, no, no, no];
            put.execute(work).map_err(failed)?;
            let unit = format!("partition:{SOURCE}/{customer}/daily/{day}");
            let entry = params![now, "bench", "partition.backfill", unit, no, DETAILS, no];
            journal.execute(entry).map_err(failed)?;
        }
    }
    connection.execute_batch("COMMIT").map_err(failed)
}
