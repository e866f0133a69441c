//! Finding out whether a file is ours before touching it, and making a new one whole.
//!
//! A database that was damaged, truncated or belongs to someone else must never be re-created
//! silently. So a new database is made under another name and moved into place when it is complete:
//! a file of that name is always a whole database of ours, or a reason to stop.
//!
//! Nothing here opens a database with the file functions of the standard library. On POSIX, closing
//! any handle of a file drops every lock the process holds on it, so a look at the header would take
//! the locks of a store that is open in the same process, and with them its last commits. SQLite
//! knows of its own handles and keeps the locks; a look is taken through it.

use std::{
    fs::{self, File, Metadata},
    io,
    path::{Path, PathBuf},
};

use redrive_store::{Error, Result};
use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig};
use tempfile::TempPath;

use crate::error::{Doing, REPAIR};

/// What marks a database as ours, in the file's header: `RDRV`.
const APPLICATION_ID: i32 = 0x5244_5256;

/// Whether there is a file, which must be an ordinary one.
pub(crate) fn is_there(path: &Path) -> Result<bool> {
    Ok(ordinary_file(path)?.is_some())
}

/// Makes an empty database of ours if there is no file. Two processes at once end up with one.
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
        // Another process was faster.
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => {
            Err(refused(doing, "the finished file cannot be moved into place", Some(error.error)))
        }
    }
}

/// An empty file in the folder of another, removed unless it is moved into place.
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
    // As SQLite would make it: who may read it is for the umask to say.
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

/// Puts a file that SQLite has finished with on disk, under its final name, which must be free.
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
    // The name is in the folder, so the folder must be on disk too.
    File::open(folder_of(path))
        .and_then(|folder| folder.sync_all())
        .map_err(|error| failed("the folder cannot be written to disk", error))
}

/// Why a file is not overwritten.
pub(crate) const EXISTS: &str = "the file exists already; name a new one";

/// Refuses a file that is not a database of ours, without leaving a trace.
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

/// SQLite writes whole pages. It notices itself when some are missing, but not a part of the last.
fn refuse_torn(path: &Path, meta: &Metadata, page_size: u64, doing: String) -> Result<()> {
    if meta.len().is_multiple_of(page_size) || has_log(path) {
        return Ok(());
    }
    let problem = format!(
        "the file ends within a page, so it was cut short; nothing was changed. To repair it, {REPAIR}"
    );
    Err(not_ours(doing, &problem, None))
}

/// Whether there is a log, which may hold what the file lacks. It is beside the file itself, not
/// beside a link to it.
fn has_log(path: &Path) -> bool {
    let mut log = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()).into_os_string();
    log.push("-wal");
    fs::metadata(log).is_ok_and(|meta| meta.len() > 0)
}

/// Reads the mark of a database and the size of its pages as they are on disk: no locks, no log, no
/// files beside it.
fn read_header(path: &Path) -> rusqlite::Result<(i32, u64)> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(immutable_uri(path), flags)?;
    // While another process folds its log into the file, the file is shorter than its header says.
    // Whether it is whole is for the open that follows, under locks.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA, true)?;
    let id = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let page_size = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
    Ok((id, page_size))
}

fn immutable_uri(path: &Path) -> String {
    // An empty authority, so that a path that begins with two slashes is not taken for one.
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

/// What is known of a file without opening it.
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

fn folder_of(path: &Path) -> PathBuf {
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
