//! A consistent copy of a database, while it is in use and whatever its version.

use std::path::Path;

use redrive_store::{Error, Result};
use rusqlite::types::{ToSqlOutput, ValueRef};

use crate::{Location, connection::connect, error::Doing, file};

/// Writes a copy to a new file. The copy appears whole, under its name, or not at all.
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

/// Copies what a database holds at this moment. SQLite refuses that on a connection that only reads,
/// so this one could write, and does not.
fn copy_database(location: &Location, copy: &Path) -> Result<()> {
    let target = ValueRef::Text(copy.as_os_str().as_encoded_bytes());
    connect(location)?
        .execute("VACUUM INTO ?1", [ToSqlOutput::Borrowed(target)])
        .doing(&format!("copying {location} to {}", copy.display()))
        .map(drop)
}
