//! A clock for leases that does not jump.
//!
//! Someone sets the wall clock back an hour, and every lease lives an hour longer; sets it forward,
//! and every run is rescued from its live worker. So lease ends are measured on the time since the
//! machine booted, which nobody sets. All processes on one file share an anchor, kept in the
//! database: the wall time at one instant of this boot. A lease from another boot has ended.
//!
//! Where the machine has no boot clock, the wall clock must do.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use redrive_store::Result;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use crate::{columns::micros, error::Doing, queries};

/// Tells the time of leases. Tests inject one.
pub type SqliteLeaseClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The lease clock of a database: reads the anchor of this boot, or sets it and ends the leases of
/// the boot before.
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

/// The same clock, without writing an anchor where there is none of this boot: for looking.
pub(crate) fn lease_clock_as_it_is(connection: &Connection) -> Result<SqliteLeaseClock> {
    let (Some(boot_id), Some(since)) = (boot_id(), since_boot()) else {
        return Ok(Arc::new(Timestamp::now));
    };
    let stored = read_anchor(connection, boot_id)?;
    let fresh = || Timestamp::now().checked_sub(since).unwrap_or(Timestamp::UNIX_EPOCH);
    Ok(counting_from(stored.unwrap_or_else(fresh)))
}

/// Whether leases go by a clock that nobody can set.
pub(crate) fn is_there() -> bool {
    boot_id().is_some() && since_boot().is_some()
}

fn counting_from(anchor: Timestamp) -> SqliteLeaseClock {
    Arc::new(move || {
        let since = since_boot().unwrap_or_default();
        anchor.checked_add(since).unwrap_or(Timestamp::MAX)
    })
}

/// The wall time at which the boot clock read zero, as this boot's first process saw it.
fn read_anchor(connection: &Connection, boot_id: &str) -> Result<Option<Timestamp>> {
    let stored: Option<(String, i64, i64)> = connection
        .query_row(queries::READ_LEASE_CLOCK, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()
        .doing("reading the lease clock")?;
    Ok(stored.filter(|(id, ..)| id == boot_id).map(|(_, wall_at, since)| anchor(wall_at, since)))
}

/// Looks again under the lock: another process may have set it meanwhile.
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
    transaction.commit().doing(DOING)?;
    redrive_store::failpoint!("sqlite.clock.committed");
    Ok(anchor(wall_at, since))
}

fn anchor(wall_at: i64, since_boot: i64) -> Timestamp {
    Timestamp::from_microsecond(wall_at.saturating_sub(since_boot)).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The time since the machine booted, which nobody sets.
#[cfg(target_os = "linux")]
fn since_boot() -> Option<SignedDuration> {
    use rustix::time::{ClockId, clock_gettime};

    let time = clock_gettime(ClockId::Boottime);
    let nanos = i32::try_from(time.tv_nsec).ok()?;
    Some(SignedDuration::new(time.tv_sec, nanos))
}

/// Names this boot of the machine. Read once: it cannot change while this process lives.
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
