//! Store errors, by what the caller can do about them.

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a store. The text says what was being tried; the cause is the source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database cannot be reached, is busy or did not answer in time. A retry may succeed.
    #[error("{doing}: the database is not available")]
    Unavailable {
        doing: String,
        #[source]
        source: BoxError,
    },

    /// The disk of the database is full. Nothing was written; a retry succeeds once there is space.
    #[error("{doing}: there is no room left on the database's disk")]
    Full {
        doing: String,
        #[source]
        source: BoxError,
    },

    /// The database answers and takes no writes: a standby, or a primary that was demoted. Nothing was written; a retry
    /// succeeds once it is the primary again, or is reached under the same address.
    #[error(
        "{doing}: the database is read-only; connect to the primary server, or wait until this one is the primary again"
    )]
    ReadOnly {
        doing: String,
        #[source]
        source: BoxError,
    },

    /// The database denied access: a wrong password, missing permission or a read-only file.
    #[error("{doing}: {problem}")]
    Refused {
        doing: String,
        /// What was refused, and what to do next.
        problem: String,
        #[source]
        source: Option<BoxError>,
    },

    /// The database is damaged, or does not belong to Redrive. Nothing was changed.
    #[error("{doing}: {problem}")]
    NotOurs {
        doing: String,
        /// What was found, and how to repair it.
        problem: String,
        #[source]
        source: Option<BoxError>,
    },

    /// The schema is newer than this program.
    #[error(
        "the database has schema {found}, this program knows up to {known}; \
         use a newer redrive, or roll the database back with the program that migrated it"
    )]
    NewerSchema { found: u32, known: u32 },

    /// The schema is older than this program needs, and no migration was requested.
    #[error(
        "the database has schema {found}, this program needs {needed}; run `redrive db migrate`"
    )]
    OlderSchema { found: u32, needed: u32 },

    /// The requested schema version does not exist.
    #[error("there is no schema version {asked}; versions run from 0 to {known}")]
    UnknownVersion { asked: u32, known: u32 },

    /// The caller violated the contract of a method.
    #[error("{doing}: {problem}")]
    Misuse { doing: String, problem: String },

    /// A stored value that this program does not know.
    #[error("{doing}: column {column} holds {value:?}, which has no meaning here")]
    BadValue { doing: String, column: &'static str, value: String },

    /// Any other database error.
    #[error("{doing}: the database failed")]
    Database {
        doing: String,
        #[source]
        source: BoxError,
    },
}

impl Error {
    /// Whether the same call may succeed later without a change to the call, the schema or the
    /// data.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Full { .. } | Self::ReadOnly { .. })
    }

    pub fn bad_value(doing: &str, column: &'static str, value: impl Into<String>) -> Self {
        Self::BadValue { doing: doing.to_owned(), column, value: value.into() }
    }

    pub fn misuse(doing: &str, problem: impl Into<String>) -> Self {
        Self::Misuse { doing: doing.to_owned(), problem: problem.into() }
    }
}
