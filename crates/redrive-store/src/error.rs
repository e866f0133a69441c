//! What can go wrong with a store, sorted by what the caller can do about it.

/// Any error, as the source of ours.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The result of a store's method.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A store's failure. The text says what was being tried; the cause is the source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database cannot be reached, is busy or did not answer in time. Trying again may help.
    #[error("{doing}: the database is not available")]
    Unavailable {
        /// What was being tried.
        doing: String,
        /// Why it failed.
        #[source]
        source: BoxError,
    },

    /// There is no room left. Nothing was written; going on is possible once there is room.
    #[error("{doing}: there is no room left on the database's disk")]
    Full {
        /// What was being tried.
        doing: String,
        /// Why it failed.
        #[source]
        source: BoxError,
    },

    /// The database refused us: a wrong password, no permission, a read-only file.
    #[error("{doing}: {problem}")]
    Refused {
        /// What was being tried.
        doing: String,
        /// What was refused, and what to do about it.
        problem: String,
        /// Why it failed, where the database said so.
        #[source]
        source: Option<BoxError>,
    },

    /// The database is damaged, or is not Redrive's. Nothing was changed.
    #[error("{doing}: {problem}")]
    NotOurs {
        /// What was being tried.
        doing: String,
        /// What was found, and how to repair it.
        problem: String,
        /// Why it failed, where the database said so.
        #[source]
        source: Option<BoxError>,
    },

    /// The schema is newer than this program.
    #[error(
        "the database has schema {found}, this program knows up to {known}; \
         use a newer redrive, or roll the database back with the program that migrated it"
    )]
    NewerSchema {
        /// The version of the database.
        found: u32,
        /// The newest version this program knows.
        known: u32,
    },

    /// The schema is older than this program needs, and nobody asked for a migration.
    #[error(
        "the database has schema {found}, this program needs {needed}; run `redrive db migrate`"
    )]
    OlderSchema {
        /// The version of the database.
        found: u32,
        /// The version this program needs.
        needed: u32,
    },

    /// A migration was asked for that does not exist.
    #[error("there is no schema version {asked}; versions run from 0 to {known}")]
    UnknownVersion {
        /// The version asked for.
        asked: u32,
        /// The newest version this program knows.
        known: u32,
    },

    /// The caller broke the rules of an interface.
    #[error("{doing}: {problem}")]
    Misuse {
        /// What was being tried.
        doing: String,
        /// Which rule was broken.
        problem: String,
    },

    /// A stored value has no meaning to this program.
    #[error("{doing}: column {column} holds {value:?}, which has no meaning here")]
    BadValue {
        /// What was being tried.
        doing: String,
        /// The column.
        column: &'static str,
        /// What it holds.
        value: String,
    },

    /// The database failed in a way that has no better name.
    #[error("{doing}: the database failed")]
    Database {
        /// What was being tried.
        doing: String,
        /// Why it failed.
        #[source]
        source: BoxError,
    },
}

impl Error {
    /// Whether the same call may succeed later without anyone changing anything but the weather.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Full { .. })
    }

    /// An unknown value in a text column.
    pub fn bad_value(doing: &str, column: &'static str, value: impl Into<String>) -> Self {
        Self::BadValue { doing: doing.to_owned(), column, value: value.into() }
    }

    /// A broken rule of an interface.
    pub fn misuse(doing: &str, problem: impl Into<String>) -> Self {
        Self::Misuse { doing: doing.to_owned(), problem: problem.into() }
    }
}
