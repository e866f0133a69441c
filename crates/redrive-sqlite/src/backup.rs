//! Writes a consistent copy of a database in any version, while the database is in use.

use std::path::Path;

use redrive_store::{Error, Result};
use rusqlite::types::{ToSqlOutput, ValueRef};

use crate::{Location, connection::connect, error::Doing, file};

/// Writes a copy to a new file. The copy appears complete, or not at all.
pub fn backup(path: &Path, target: &Path) -> Result<()> {
    let doing = format!("backing up to {}", target.display());
    file::refuse_foreign(path)?;
    if target.symlink_metadata().is_ok() {
        let problem = file::EXISTS.to_owned();
        return Err(Error::Refused { doing, problem, source: None });
    }
    let unfinished = file::file_beside(target, ".redrive-backup-", &doing)?;
    copy_database(&Location::File(path.to_owned()), &unfinished)?;
    file::persist(unfinished, target, &doing)
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
