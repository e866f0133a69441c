//! A lease clock that does not jump.
//!
//! If leases used the wall clock, setting the clock back would extend every lease, and setting it
//! forward would take every run from its live worker. So the end of a lease is measured in time
//! since boot, which nobody can set. All processes on one file share an anchor in the database: the
//! wall time at one instant of this boot. Leases of another boot have ended.
//!
//! A machine without a boot clock uses the wall clock.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use redrive_store::Result;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use crate::{columns::micros, error::Doing, queries};

/// Returns the time on the lease clock. Tests inject their own.
pub type SqliteLeaseClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The lease clock of a database. Reads the anchor of this boot, or sets the anchor and ends the
/// leases of earlier boots.
pub(crate) fn lease_clock(connection: &Connection) -> Result<SqliteLeaseClock> {
    let (Some(boot_id), Some(_)) = (boot_id(), since_boot()) else {
        return Ok(Arc::new(Timestamp::now));
    };
    let anchor = match read_anchor(connection, boot_id)? {
        Some(anchor) => anchor,
        None => set_anchor(connection, boot_id)?,
    };
    Ok(counting_from(anchor))
}

/// The same clock for read-only use: does not write an anchor if there is none of this boot.
pub(crate) fn lease_clock_as_it_is(connection: &Connection) -> Result<SqliteLeaseClock> {
    let (Some(boot_id), Some(since)) = (boot_id(), since_boot()) else {
        return Ok(Arc::new(Timestamp::now));
    };
    let stored = read_anchor(connection, boot_id)?;
    let fresh = || Timestamp::now().checked_sub(since).unwrap_or(Timestamp::UNIX_EPOCH);
    Ok(counting_from(stored.unwrap_or_else(fresh)))
}

fn counting_from(anchor: Timestamp) -> SqliteLeaseClock {
    Arc::new(move || {
        let since = since_boot().unwrap_or_default();
        anchor.checked_add(since).unwrap_or(Timestamp::MAX)
    })
}

/// The wall time at which the boot clock was zero, according to the first process of this boot.
fn read_anchor(connection: &Connection, boot_id: &str) -> Result<Option<Timestamp>> {
    let stored: Option<(String, i64, i64)> = connection
        .query_row(queries::READ_LEASE_CLOCK, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()
        .doing("reading the lease clock")?;
    Ok(stored.filter(|(id, ..)| id == boot_id).map(|(_, wall_at, since)| anchor(wall_at, since)))
}

/// Reads the anchor again under the lock, because another process may have set it.
fn set_anchor(connection: &Connection, boot_id: &str) -> Result<Timestamp> {
    const DOING: &str = "setting the lease clock";
    let transaction =
        Transaction::new_unchecked(connection, TransactionBehavior::Immediate).doing(DOING)?;
    if let Some(anchor) = read_anchor(&transaction, boot_id)? {
        return Ok(anchor);
    }
    let wall_at = micros(Timestamp::now());
    let since = since_boot().unwrap_or_default().as_micros();
    let since = i64::try_from(since).unwrap_or(i64::MAX);
    transaction.execute(queries::SET_LEASE_CLOCK, params![boot_id, wall_at, since]).doing(DOING)?;
    redrive_store::failpoint!("sqlite.clock.row");
    transaction.execute(queries::END_LEASES_OF_OTHER_BOOTS, []).doing(DOING)?;
    transaction.execute(queries::END_PARTITION_LEASES_OF_OTHER_BOOTS, []).doing(DOING)?;
    transaction.execute(queries::END_GROUP_LEASES_OF_OTHER_BOOTS, []).doing(DOING)?;
    transaction.execute(queries::END_SAMPLE_LEASES_OF_OTHER_BOOTS, []).doing(DOING)?;
    transaction.execute(queries::END_FEED_LEASES_OF_OTHER_BOOTS, []).doing(DOING)?;
    transaction.execute(queries::END_PLAN_LEASES_OF_OTHER_BOOTS, []).doing(DOING)?;
    transaction.execute(queries::REMOVE_WORKERS_OF_OTHER_BOOTS, []).doing(DOING)?;
    transaction.commit().doing(DOING)?;
    redrive_store::failpoint!("sqlite.clock.committed");
    Ok(anchor(wall_at, since))
}

fn anchor(wall_at: i64, since_boot: i64) -> Timestamp {
    Timestamp::from_microsecond(wall_at.saturating_sub(since_boot)).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(target_os = "linux")]
fn since_boot() -> Option<SignedDuration> {
    use rustix::time::{ClockId, clock_gettime};

    let time = clock_gettime(ClockId::Boottime);
    let nanos = i32::try_from(time.tv_nsec).ok()?;
    Some(SignedDuration::new(time.tv_sec, nanos))
}

/// The id of this boot. Read once, because it cannot change while this process runs.
#[cfg(target_os = "linux")]
fn boot_id() -> Option<&'static str> {
    use std::sync::LazyLock;

    static BOOT_ID: LazyLock<Option<String>> = LazyLock::new(|| {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(id.trim().to_owned())
    });
    BOOT_ID.as_deref()
}

#[cfg(not(target_os = "linux"))]
fn since_boot() -> Option<SignedDuration> {
    None
}

#[cfg(not(target_os = "linux"))]
fn boot_id() -> Option<&'static str> {
    None
}
