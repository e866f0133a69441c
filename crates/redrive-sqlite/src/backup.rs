//! Writes a consistent copy of a database in any version, while the database is in use.
//!
//! A killed backup leaves an unfinished copy, as large as the database. A backup holds a lock on its
//! unfinished copy, which ends with the process; the next backup to the same folder removes copies
//! that nobody has locked.

use std::{
    fs::{self, File},
    path::Path,
};

use redrive_store::{Error, Result};
use rusqlite::types::{ToSqlOutput, ValueRef};
use tempfile::TempPath;

use crate::{Location, connection::connect, error::Doing, file};

/// The beginning of the name of an unfinished copy.
const UNFINISHED: &str = ".redrive-backup-";

/// Writes a copy to a new file. The copy appears complete, or not at all.
pub fn backup(path: &Path, target: &Path) -> Result<()> {
    let doing = format!("backing up to {}", target.display());
    file::refuse_foreign(path)?;
    if target.symlink_metadata().is_ok() {
        let problem = file::EXISTS.to_owned();
        return Err(Error::Refused { doing, problem, source: None });
    }
    remove_abandoned(target);
    let (unfinished, _lock) = unfinished_copy(target, &doing)?;
    copy_database(&Location::File(path.to_owned()), &unfinished)?;
    file::persist(unfinished, target, &doing)
}

/// An empty file and the lock on it.
fn unfinished_copy(target: &Path, doing: &str) -> Result<(TempPath, Option<File>)> {
    loop {
        let unfinished = file::file_beside(target, UNFINISHED, doing)?;
        // Without a lock, on a file system that has none, the copy is never removed by others.
        let lock = File::open(&unfinished).ok().filter(|file| file.lock_shared().is_ok());
        // Another backup may have removed the file before it was locked.
        if unfinished.exists() {
            return Ok((unfinished, lock));
        }
    }
}

/// Removes the unfinished copies of killed backups. What cannot be removed is left for the next backup.
fn remove_abandoned(target: &Path) {
    for entry in file::folder_of(target).read_dir().into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        // SQLite's journal beside a copy has another dash in its name, and goes with its copy.
        let is_copy =
            |name: &str| name.strip_prefix(UNFINISHED).is_some_and(|random| !random.contains('-'));
        if !name.to_str().is_some_and(is_copy) {
            continue;
        }
        // Locked until the copy is removed, so that no backup takes the copy for its own meanwhile.
        let Ok(copy) = File::open(&path) else { continue };
        if copy.try_lock().is_ok() {
            let mut journal = path.clone().into_os_string();
            journal.push("-journal");
            let _ = fs::remove_file(journal);
            let _ = fs::remove_file(path);
        }
    }
}

/// Copies the current content. SQLite does not allow `VACUUM INTO` on a read-only connection, so
/// this connection could write, but does not.
fn copy_database(location: &Location, copy: &Path) -> Result<()> {
    let target = ValueRef::Text(copy.as_os_str().as_encoded_bytes());
    connect(location)?
        .execute("VACUUM INTO ?1", [ToSqlOutput::Borrowed(target)])
        .doing(&format!("copying {location} to {}", copy.display()))
        .map(drop)
}
