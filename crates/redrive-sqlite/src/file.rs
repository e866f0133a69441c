//! Checks that a file is a Redrive database before it is opened, and creates new files atomically.
//!
//! A database that is damaged, truncated or belongs to another program must never be re-created
//! silently. So a new database is created under a temporary name and renamed when it is complete: a
//! file with the final name is always a complete Redrive database, or a reason to stop.
//!
//! This module does not open a database with the file functions of the standard library. On POSIX,
//! closing any handle of a file drops all locks that the process holds on the file. Reading the
//! header that way would drop the locks of a store that is open in the same process, and could lose
//! its last commits. SQLite tracks its own handles and keeps the locks, so the header is read
//! through SQLite.

use std::{
    fs::{self, File, Metadata},
    io,
    path::{Path, PathBuf},
};

use redrive_store::{Error, Result};
use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig};
use tempfile::TempPath;

use crate::error::{Doing, REPAIR};

/// The application id in the header of a Redrive database: `RDRV`.
const APPLICATION_ID: i32 = 0x5244_5256;

/// Whether the file exists. Fails if it is not an ordinary file.
pub(crate) fn is_there(path: &Path) -> Result<bool> {
    Ok(ordinary_file(path)?.is_some())
}

/// Creates an empty Redrive database if there is no file. Safe for concurrent processes.
pub(crate) fn create_if_absent(path: &Path) -> Result<()> {
    if is_there(path)? {
        return Ok(());
    }
    let doing = format!("creating {}", path.display());
    let unfinished = file_beside(path, ".redrive-new-", &doing)?;
    let connection = Connection::open(&unfinished).doing(&doing)?;
    connection.pragma_update(None, "application_id", APPLICATION_ID).doing(&doing)?;
    connection.pragma_update(None, "journal_mode", "wal").doing(&doing)?;
    connection.close().map_err(|(_, error)| error).doing(&doing)?;
    redrive_store::failpoint!("sqlite.create.unfinished");
    match unfinished.persist_noclobber(path) {
        Ok(()) => Ok(()),
        // Another process created the file first.
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => {
            Err(refused(doing, "the finished file cannot be moved into place", Some(error.error)))
        }
    }
}

/// An empty file in the same folder, removed unless it is persisted.
pub(crate) fn file_beside(path: &Path, prefix: &str, doing: &str) -> Result<TempPath> {
    let folder = folder_of(path);
    if !folder.is_dir() {
        let problem = format!(
            "the folder {} does not exist or cannot be entered; create it first",
            folder.display()
        );
        return Err(refused(doing.to_owned(), &problem, None));
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix);
    // SQLite would create the file with these permissions: the umask decides.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let file = builder.tempfile_in(&folder).map_err(|error| {
        let problem = format!(
            "the folder {} cannot be written; make it writable for this user",
            folder.display()
        );
        refused(doing.to_owned(), &problem, Some(error))
    })?;
    Ok(file.into_temp_path())
}

/// Syncs a finished file and renames it to its final name, which must not exist.
pub(crate) fn persist(unfinished: TempPath, path: &Path, doing: &str) -> Result<()> {
    let failed = |problem: &str, error| refused(doing.to_owned(), problem, Some(error));
    File::open(&unfinished)
        .and_then(|file| file.sync_all())
        .map_err(|error| failed("the copy cannot be written to disk", error))?;
    unfinished.persist_noclobber(path).map_err(|error| {
        let problem = match error.error.kind() {
            io::ErrorKind::AlreadyExists => EXISTS,
            _ => "the copy cannot be moved into place",
        };
        failed(problem, error.error)
    })?;
    // The name is an entry of the folder, so the folder must be synced too.
    File::open(folder_of(path))
        .and_then(|folder| folder.sync_all())
        .map_err(|error| failed("the folder cannot be written to disk", error))
}

pub(crate) const EXISTS: &str = "the file exists already; name a new one";

/// Rejects a file that is not a Redrive database, without changing anything.
pub(crate) fn refuse_foreign(path: &Path) -> Result<()> {
    let doing = format!("opening {}", path.display());
    let Some(meta) = ordinary_file(path)? else {
        let problem = "there is no such file; `redrive db migrate` makes one";
        return Err(refused(doing, problem, None));
    };
    if meta.len() == 0 {
        return Err(not_ours(
            doing,
            "the file is empty, so it was truncated or is not a database; nothing was changed. \
             Restore a backup, or remove the file to start afresh",
            None,
        ));
    }
    match read_header(path) {
        Ok((APPLICATION_ID, page_size)) => refuse_torn(path, &meta, page_size, doing),
        Ok(_) => Err(not_ours(
            doing,
            "the file is an SQLite database of another program; nothing was changed. Name another \
             file",
            None,
        )),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
            let problem = format!(
                "the file is not an SQLite database; nothing was changed. If it should be one, {REPAIR}; \
                 otherwise name another file"
            );
            Err(not_ours(doing, &problem, Some(error)))
        }
        Err(error) => Err(error).doing(&doing),
    }
}

/// SQLite writes whole pages. It detects missing pages, but not a partial last page.
fn refuse_torn(path: &Path, meta: &Metadata, page_size: u64, doing: String) -> Result<()> {
    if meta.len().is_multiple_of(page_size) || has_log(path) {
        return Ok(());
    }
    let problem = format!(
        "the file ends within a page, so it was cut short; nothing was changed. To repair it, {REPAIR}"
    );
    Err(not_ours(doing, &problem, None))
}

/// Whether there is a write-ahead log, which may have content that the file lacks. The log is
/// beside the file itself, not beside a link to it.
fn has_log(path: &Path) -> bool {
    let mut log = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()).into_os_string();
    log.push("-wal");
    fs::metadata(log).is_ok_and(|meta| meta.len() > 0)
}

/// Reads the application id and the page size from disk, without locks, log or side files.
fn read_header(path: &Path) -> rusqlite::Result<(i32, u64)> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(immutable_uri(path), flags)?;
    // While another process writes its log back, the file is shorter than its header says. The
    // following open checks that under locks.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA, true)?;
    let id = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let page_size = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
    Ok((id, page_size))
}

fn immutable_uri(path: &Path) -> String {
    // An empty authority, so that a path that starts with two slashes is not read as an authority.
    let mut uri = String::from(if path.is_absolute() { "file://" } else { "file:" });
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' => uri.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri.push_str("?immutable=1");
    uri
}

fn ordinary_file(path: &Path) -> Result<Option<Metadata>> {
    let doing = || format!("opening {}", path.display());
    match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => Err(refused(doing(), "it is a folder; name a file", None)),
        Ok(meta) if !meta.is_file() => {
            let problem = "it is a device or a pipe, not a file; name a file";
            Err(refused(doing(), problem, None))
        }
        Ok(meta) => Ok(Some(meta)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let problem = "the path cannot be followed; check its folders and their permissions";
            Err(refused(doing(), problem, Some(error)))
        }
    }
}

pub(crate) fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn refused(doing: String, problem: &str, source: Option<io::Error>) -> Error {
    Error::Refused { doing, problem: problem.to_owned(), source: source.map(Into::into) }
}

fn not_ours(doing: String, problem: &str, source: Option<rusqlite::Error>) -> Error {
    Error::NotOurs { doing, problem: problem.to_owned(), source: source.map(Into::into) }
}
