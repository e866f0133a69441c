//! Bounds the write-ahead log by the free space of the disk.
//!
//! SQLite writes the log back to the file when the log has a number of pages. On a small disk the log
//! could fill the disk before that, and since every write needs the log, no write would succeed again.
//! So the number follows the free space, and a write that finds the disk full shortens the log and is
//! run again.

use std::{path::Path, time::Duration};

use redrive_store::Result;
use rusqlite::Connection;

use crate::{connection::BUSY_TIMEOUT, error::Doing, room::free_bytes};

/// SQLite's page size, which no store changes.
const PAGE_BYTES: u64 = 4_096;

/// 16 MiB, for a disk with enough space.
const MAX_PAGES: u64 = 4_096;

/// 256 KiB. A shorter log would be written back after almost every commit.
const MIN_PAGES: u64 = 64;

/// The log may use one part in this many of the free space.
const PARTS: u64 = 4;

/// How long shortening the log waits for readers. All writes wait meanwhile.
const MAX_WAIT: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(crate) struct LogLimit {
    /// The limit that the connection has, once one was set.
    pages: Option<u64>,
}

impl LogLimit {
    /// Adjusts the limit to the free space of the disk. A database in memory has no log.
    pub(crate) fn adjust(&mut self, connection: &Connection) -> Result<()> {
        match connection.path().filter(|path| !path.is_empty()) {
            Some(path) => self.adjust_to(connection, free_bytes(Path::new(path))),
            None => Ok(()),
        }
    }

    /// Unknown free space is enough space.
    fn adjust_to(&mut self, connection: &Connection, free: Option<u64>) -> Result<()> {
        const DOING: &str = "limiting the write-ahead log";
        let pages = free.map_or(MAX_PAGES, pages_for);
        if self.pages == Some(pages) {
            return Ok(());
        }
        connection.pragma_update(None, "wal_autocheckpoint", pages).doing(DOING)?;
        // A log that is longer than this is cut when it is written back.
        connection
            .pragma_update_and_check(None, "journal_size_limit", pages * PAGE_BYTES, |_| Ok(()))
            .doing(DOING)?;
        self.pages = Some(pages);
        Ok(())
    }
}

/// A power of two, so that the limit rarely changes.
fn pages_for(free_bytes: u64) -> u64 {
    let pages = (free_bytes / PAGE_BYTES / PARTS).clamp(MIN_PAGES, MAX_PAGES);
    1 << pages.ilog2()
}

/// Writes the log back and empties it. Returns whether that succeeded.
pub(crate) fn empty_log(connection: &Connection) -> bool {
    let set_wait = |wait| connection.busy_timeout(wait).is_ok();
    let is_busy = |row: &rusqlite::Row<'_>| row.get::<_, bool>(0);
    set_wait(MAX_WAIT) && {
        let busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], is_busy);
        set_wait(BUSY_TIMEOUT) && matches!(busy, Ok(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_may_use_a_quarter_of_the_free_space() {
        for (free_mib, pages) in [
            (0, 64),
            (1, 64),
            (2, 128),
            (9, 512),
            (32, 2_048),
            (63, 2_048),
            (64, 4_096),
            (1 << 20, 4_096),
        ] {
            assert_eq!(pages_for(free_mib << 20), pages, "{free_mib} MiB");
        }
    }

    #[test]
    fn a_log_on_a_short_disk_is_written_back_early_and_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let connection = Connection::open(&path).unwrap();
        connection.pragma_update(None, "journal_mode", "wal").unwrap();
        connection.execute_batch("CREATE TABLE t (x)").unwrap();
        let mut limit = LogLimit::default();
        let mut longest_log = |free_mib: u64| {
            limit.adjust_to(&connection, Some(free_mib << 20)).unwrap();
            for _ in 0..400 {
                connection.execute("INSERT INTO t VALUES (zeroblob(50000))", []).unwrap();
                connection.execute("DELETE FROM t", []).unwrap();
            }
            folder.path().join("store.db-wal").metadata().unwrap().len() >> 10
        };
        let (enough, short) = (longest_log(1_024), longest_log(9));
        assert!((16_000..17_500).contains(&enough), "{enough} KiB");
        assert!(short <= 2_300, "{short} KiB");
    }
}
