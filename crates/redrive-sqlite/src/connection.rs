//! Opens and configures connections.

use std::{path::Path, time::Duration};

use redrive_store::{Error, Result};
use rusqlite::{Connection, OpenFlags, config::DbConfig};

use crate::{Location, SqliteSync, error::Doing, log_limit::LogLimit};

/// How long a write waits for another process on the same file.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The number of prepared statements that a connection keeps; more than the store has.
const STATEMENT_CACHE: usize = 160;

const SETTING_UP: &str = "setting up the connection";

/// A connection that may write but has changed nothing yet.
pub(crate) fn connect(location: &Location) -> Result<Connection> {
    let connection = open(location, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    if let Location::File(path) = location {
        refuse_read_only(&connection, path)?;
    }
    Ok(connection)
}

/// Configures the connection of the writer.
pub(crate) fn set_up_writer(
    connection: &Connection,
    location: &Location,
    synchronous: SqliteSync,
) -> Result<()> {
    if let Location::File(path) = location {
        log_ahead(connection, path)?;
    }
    connection.pragma_update(None, "synchronous", synchronous.pragma()).doing(SETTING_UP)?;
    connection.pragma_update(None, "foreign_keys", true).doing(SETTING_UP)
}

/// A connection for reads. It is opened for writing, because SQLite does not parse CHECK
/// constraints on a read-only connection and could not verify them.
pub(crate) fn open_reader(path: &Path) -> Result<Connection> {
    let connection = open(&Location::File(path.to_owned()), OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.pragma_update(None, "query_only", true).doing(SETTING_UP)?;
    Ok(connection)
}

fn open(location: &Location, flags: OpenFlags) -> Result<Connection> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match location {
        Location::File(path) => Connection::open_with_flags(path, flags),
        Location::Memory => Connection::open_in_memory(),
    }
    .doing(&format!("opening {location}"))?;
    connection.busy_timeout(BUSY_TIMEOUT).doing(SETTING_UP)?;
    // Without this setting SQLite may plan a statement again when its parameters change.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).doing(SETTING_UP)?;
    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE);
    Ok(connection)
}

/// A new database has a write-ahead log, but a restored backup does not.
fn log_ahead(connection: &Connection, path: &Path) -> Result<()> {
    let doing = format!("switching {} to write-ahead logging", path.display());
    let mode: String = connection
        .pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))
        .doing(&doing)?;
    if mode != "wal" {
        return Err(Error::Refused {
            doing,
            problem:
                "the file system cannot share memory between processes; keep the database on a \
                      local disk"
                    .to_owned(),
            source: None,
        });
    }
    LogLimit::default().adjust(connection)
}

fn refuse_read_only(connection: &Connection, path: &Path) -> Result<()> {
    let doing = format!("opening {}", path.display());
    if connection.is_readonly("main").doing(&doing)? {
        return Err(Error::Refused {
            doing,
            problem: "the file is read-only; make it writable for this user".to_owned(),
            source: None,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_waits_for_the_disk_unless_told_otherwise() {
        // SQLite reports FULL as 2 and NORMAL as 1.
        for (synchronous, expected) in [(SqliteSync::default(), 2), (SqliteSync::Normal, 1)] {
            let connection = connect(&Location::Memory).unwrap();
            set_up_writer(&connection, &Location::Memory, synchronous).unwrap();
            let level: i64 =
                connection.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
            assert_eq!(level, expected);
        }
    }
}
