//! Whether there is room left to write.
//!
//! A full disk is noticed before the first write fails: reads go on as if nothing were wrong, so a look that
//! only reads would call a store ready that takes nothing more.

use std::path::Path;

use redrive_store::Result;

/// Refuses a database whose disk has less than so many bytes left.
#[cfg(unix)]
pub(crate) fn check_room(path: &Path, min_free_bytes: u64) -> Result<()> {
    use redrive_store::Error;

    const DOING: &str = "looking for room on the disk";
    let disk = rustix::fs::statvfs(path)
        .map_err(|error| Error::Unavailable { doing: DOING.to_owned(), source: error.into() })?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free >= min_free_bytes {
        return Ok(());
    }
    let source = format!("{free} bytes are left, {min_free_bytes} are needed").into();
    Err(Error::Full { doing: DOING.to_owned(), source })
}

/// Nothing tells how much room there is.
#[cfg(not(unix))]
pub(crate) fn check_room(_: &Path, _: u64) -> Result<()> {
    Ok(())
}
