//! Bare loops that request partitions: the same rows as a backfill, without the store.

use std::time::SystemTime;

use redrive::{LogicalDate, StoreUrl};
use rusqlite::{Connection, params};
use tokio_postgres::NoTls;

use crate::{
    error::{BenchError, failed},
    run_backend::at,
};

const SOURCE: &str = "bare";

const DETAILS: &str =
    r#"{"before":"no entry","command":"bench","flags":[],"lane":"backfill","reason":null}"#;

/// Writes the state, the work and the journal of many partitions in one statement.
const INSERT: &str = "
    WITH made AS (
        INSERT INTO redrive.partition_state (source, customer_id, query_name, logical_date, updated_at)
        SELECT $1, customer_id, 'daily', logical_date::date, $4
        FROM unnest($2::text[], $3::text[]) AS new (customer_id, logical_date)
        ON CONFLICT (source, customer_id, query_name, logical_date) DO NOTHING
        RETURNING id, customer_id, logical_date
    ), requested AS (
        INSERT INTO redrive.partition_work
            (partition_id, source, kind, lane, requested_at, requested_by, lease_epoch)
        SELECT id, $1, 'first', 'backfill', $4, 'bench', 0 FROM made
    )
    INSERT INTO redrive.journal (at, actor, action, unit, details)
    SELECT $4, 'bench', 'partition.backfill',
        'partition:' || $1 || '/' || customer_id || '/daily/' || logical_date, $5
    FROM made";

pub(crate) type CustomerDays = [(String, LogicalDate)];

pub(crate) enum PartitionLoop {
    Sqlite(Connection),
    Postgres(tokio_postgres::Client, tokio_postgres::Statement),
}

impl PartitionLoop {
    /// Opens the database with the settings of the store.
    pub(crate) async fn open(url: &StoreUrl) -> Result<Self, BenchError> {
        match url {
            StoreUrl::Postgres(url) => {
                let connected = tokio_postgres::connect(url.with_password(), NoTls).await;
                let (client, connection) = connected.map_err(failed)?;
                // The task ends with the client; a broken connection shows in the calls of the client.
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
                Err(BenchError::new("a database in memory has one connection"))
            }
        }
    }

    /// Requests a batch in one transaction.
    pub(crate) async fn insert(&self, days: &CustomerDays) -> Result<(), BenchError> {
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

fn insert_into_sqlite(connection: &Connection, days: &CustomerDays) -> Result<(), BenchError> {
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
        let (now, null) = (at(0).as_microsecond(), None::<i64>);
        for (customer, day) in days {
            let day = day.to_string();
            let row = params![SOURCE, customer, "daily", day, now];
            let id: i64 = insert.query_row(row, |row| row.get(0)).map_err(failed)?;
            let work = params![
                id, SOURCE, "first", "backfill", now, "bench", null, null, 0, null, null, null,
                null, customer
            ];
            put.execute(work).map_err(failed)?;
            let unit = format!("partition:{SOURCE}/{customer}/daily/{day}");
            let entry = params![now, "bench", "partition.backfill", unit, null, DETAILS, null];
            journal.execute(entry).map_err(failed)?;
        }
    }
    connection.execute_batch("COMMIT").map_err(failed)
}
