//! Checks the free space of the disk.
//!
//! Reads still work on a full disk, so a check that only reads would report a store as ready that
//! cannot write. This check finds a full disk before the first write fails.

use std::path::Path;

use redrive_store::{Error, Result};

pub(crate) fn check_room(path: &Path, min_free_bytes: u64) -> Result<()> {
    match free_bytes(path) {
        Some(free) if free < min_free_bytes => {
            let doing = "looking for room on the disk".to_owned();
            let source = format!("{free} bytes are left, {min_free_bytes} are needed").into();
            Err(Error::Full { doing, source })
        }
        _ => Ok(()),
    }
}

/// The free space of the disk, if the file system reports it.
#[cfg(unix)]
pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(path).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(not(unix))]
pub(crate) fn free_bytes(_: &Path) -> Option<u64> {
    None
}
