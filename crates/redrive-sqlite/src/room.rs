//! Checks the free space of the disk.
//!
//! Reads still work on a full disk, so a check that only reads would report a store as ready that
//! cannot write. This check finds a full disk before the first write fails.

use std::path::Path;

use redrive_store::Result;

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

/// The free space is unknown on this platform.
#[cfg(not(unix))]
pub(crate) fn check_room(_: &Path, _: u64) -> Result<()> {
    Ok(())
}
