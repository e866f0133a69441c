//! Maps PostgreSQL errors to store errors by what the caller can do about them.

use std::error::Error as _;

use deadpool_postgres::PoolError;
use redrive_store::Error;
use tokio_postgres::error::{Severity, SqlState};

/// Converts an error of the server or of the connection.
pub(crate) fn database(doing: &str, source: tokio_postgres::Error) -> Error {
    match source.code().cloned() {
        Some(code) => from_server(doing, &code, source),
        None => from_connection(doing, source),
    }
}

fn from_server(doing: &str, code: &SqlState, source: tokio_postgres::Error) -> Error {
    let server_text = source
        .as_db_error()
        .map(|error| {
            let detail = error.detail().map(|detail| format!(": {detail}"));
            format!("{}{}", error.message(), detail.unwrap_or_default())
        })
        .unwrap_or_default();
    // The source is the server's own error; its wrapper only says that there was one.
    let source = source.into_source().unwrap_or_else(|| server_text.clone().into());
    let doing = doing.to_owned();
    let refused = |problem: &str, source| Error::Refused {
        doing: doing.clone(),
        problem: problem.to_owned(),
        source: Some(source),
    };
    match *code {
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => refused(
            "the server rejected this user; check user and password in the URL, and the \
             server's pg_hba.conf",
            source,
        ),
        SqlState::INVALID_CATALOG_NAME => refused(
            "the database does not exist; create it first, for example with `createdb`",
            source,
        ),
        SqlState::INSUFFICIENT_PRIVILEGE => refused(
            "the user lacks a permission; grant it, or use the user that owns the schema redrive",
            source,
        ),
        SqlState::READ_ONLY_SQL_TRANSACTION => Error::ReadOnly { doing, source },
        SqlState::DISK_FULL => Error::Full { doing, source },
        SqlState::UNDEFINED_TABLE
        | SqlState::UNDEFINED_COLUMN
        | SqlState::INVALID_SCHEMA_NAME
        | SqlState::UNDEFINED_FUNCTION
        | SqlState::UNDEFINED_OBJECT => Error::NotOurs {
            doing,
            problem:
                "the schema redrive is not as Redrive created it; nothing was changed. Restore \
                      the schema from a backup, or use another database"
                    .to_owned(),
            source: Some(source),
        },
        SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => Error::NotOurs {
            doing,
            problem: "the database is damaged; nothing was changed. Restore a backup".to_owned(),
            source: Some(source),
        },
        SqlState::CHARACTER_NOT_IN_REPERTOIRE | SqlState::UNTRANSLATABLE_CHARACTER => {
            Error::Misuse {
                doing,
                problem: format!("PostgreSQL cannot keep this text: {server_text}"),
            }
        }
        SqlState::PROGRAM_LIMIT_EXCEEDED => Error::Misuse {
            doing,
            problem: format!("a name or key is too long for PostgreSQL: {server_text}"),
        },
        SqlState::UNIQUE_VIOLATION
        | SqlState::CHECK_VIOLATION
        | SqlState::DATETIME_FIELD_OVERFLOW => Error::Misuse { doing, problem: server_text },
        _ if is_transient(code) => Error::Unavailable { doing, source },
        _ => Error::Database { doing, source },
    }
}

/// Whether the same query may succeed later: overload, shutdown, time-outs, conflicts.
fn is_transient(code: &SqlState) -> bool {
    // By class: connection, transaction rollback, resources, operator intervention, system.
    ["08", "40", "53", "57", "58"].iter().any(|class| code.code().starts_with(class))
        || [SqlState::LOCK_NOT_AVAILABLE, SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT]
            .contains(code)
}

/// Whether the server rolled the transaction back because of a concurrent one.
pub(crate) fn is_conflict(error: &tokio_postgres::Error) -> bool {
    let conflicts = [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE];
    error.code().is_some_and(|code| conflicts.contains(code))
}

/// Whether the connection can still be used after an error. One to a server that was demoted cannot: the next connection
/// may reach the new primary.
pub(crate) fn leaves_connection_usable(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|error| {
        error.parsed_severity() == Some(Severity::Error)
            && *error.code() != SqlState::READ_ONLY_SQL_TRANSACTION
    })
}

fn from_connection(doing: &str, source: tokio_postgres::Error) -> Error {
    let doing = doing.to_owned();
    let text = source.to_string();
    if let Some(tls) = find::<rustls::Error>(&source) {
        let problem = format!(
            "the server's certificate is not accepted ({tls}); name the authority that signed it \
             with sslrootcert=FILE, and the server as its certificate does"
        );
        return Error::Refused { doing, problem, source: Some(source.into()) };
    }
    // The driver distinguishes these errors by their text only.
    let problem = match text.as_str() {
        "error performing TLS handshake" => {
            "no encrypted connection could be made; sslmode=disable turns encryption off"
        }
        "invalid configuration" | "authentication error" => {
            "the server rejected this user; check user and password in the URL"
        }
        _ => {
            return Error::Unavailable { doing, source: source.into() };
        }
    };
    Error::Refused { doing, problem: problem.to_owned(), source: Some(source.into()) }
}

/// Finds an error of a type among the causes.
fn find<E: std::error::Error + 'static>(error: &tokio_postgres::Error) -> Option<&E> {
    let mut cause = error.source();
    while let Some(current) = cause {
        if let Some(found) = current.downcast_ref::<E>() {
            return Some(found);
        }
        // The source of an I/O error is its inner error's source, not the inner error itself.
        let inner = current.downcast_ref::<std::io::Error>().and_then(|error| error.get_ref());
        if let Some(found) = inner.and_then(|inner| inner.downcast_ref::<E>()) {
            return Some(found);
        }
        cause = current.source();
    }
    None
}

pub(crate) fn pool(doing: &str, source: PoolError) -> Error {
    match source {
        PoolError::Backend(source) => database(doing, source),
        source => Error::Unavailable {
            doing: doing.to_owned(),
            source: match source {
                PoolError::Timeout(_) => "no connection of the pool became free in time".into(),
                source => source.into(),
            },
        },
    }
}

pub(crate) fn timed_out(doing: &str, limit: std::time::Duration) -> Error {
    Error::Unavailable {
        doing: doing.to_owned(),
        source: format!("no answer within {} s", limit.as_secs_f32()).into(),
    }
}
