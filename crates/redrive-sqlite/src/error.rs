//! Maps SQLite errors to store errors, by what the caller can do about them.

use redrive_store::{BoxError, Error};
use rusqlite::ErrorCode;

use crate::Location;

/// How to repair a damaged database. SQLite would replay a log that is left beside a restored file,
/// and damage the file again.
pub(crate) const REPAIR: &str = "restore a backup (remove FILE-wal and FILE-shm first), or salvage \
                                 what is left with `sqlite3 FILE .recover`";

pub(crate) fn database(doing: &str, source: rusqlite::Error) -> Error {
    let doing = doing.to_owned();
    let code = source.sqlite_error_code();
    // The source of a rusqlite error repeats the same text with a number.
    let source: BoxError = source.to_string().into();
    let refused = |problem: &str, source| Error::Refused {
        doing: doing.clone(),
        problem: problem.to_owned(),
        source: Some(source),
    };
    match code {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::SystemIoFailure) => {
            Error::Unavailable { doing, source }
        }
        Some(ErrorCode::DiskFull) => Error::Full { doing, source },
        Some(ErrorCode::ReadOnly) => refused(
            "the database or its folder is read-only; make both writable for this user",
            source,
        ),
        Some(ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => refused(
            "the file cannot be opened; make it and its folder readable and writable for this user",
            source,
        ),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Error::NotOurs {
            doing,
            problem: format!(
                "the database file is damaged or was cut short; nothing was changed. To repair it, \
                 {REPAIR}"
            ),
            source: Some(source),
        },
        _ => Error::Database { doing, source },
    }
}

/// Adds what was being tried to an SQLite error.
pub(crate) trait Doing<T> {
    fn doing(self, doing: &str) -> Result<T, Error>;
}

impl<T> Doing<T> for rusqlite::Result<T> {
    fn doing(self, doing: &str) -> Result<T, Error> {
        self.map_err(|source| database(doing, source))
    }
}

/// Adds the location of the database to an error that does not have it.
pub(crate) trait In<T> {
    fn in_database(self, location: &Location) -> Result<T, Error>;
}

impl<T> In<T> for Result<T, Error> {
    fn in_database(self, location: &Location) -> Self {
        self.map_err(|mut error| {
            if let Error::Unavailable { doing, .. }
            | Error::Full { doing, .. }
            | Error::Refused { doing, .. }
            | Error::NotOurs { doing, .. }
            | Error::Database { doing, .. } = &mut error
            {
                let place = location.to_string();
                if !doing.contains(&place) {
                    doing.push_str(" in ");
                    doing.push_str(&place);
                }
            }
            error
        })
    }
}
