//! Migrations: numbered, append-only, with up and down scripts; the same numbers and names in every
//! store.

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{Error, FromRow, Result, RowReader};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// 1, 2, 3 … without gaps.
    pub version: u32,
    pub name: &'static str,
    pub up: &'static str,
    pub down: &'static str,
}

/// The migrations of a store, from the files in the folder `migrations` of its crate. A new migration gets a line here, and
/// files in every store.
#[macro_export]
macro_rules! migrations {
    () => {
        $crate::migrations! {
            1, "0001", "runs_items_attempts_journal";
            2, "0002", "upload_attempts";
            3, "0003", "partitions";
            4, "0004", "upload_groups";
            5, "0005", "plain_checks";
            6, "0006", "pipelines";
            7, "0007", "prune";
            8, "0008", "journal_readers";
            9, "0009", "claim_stage";
            10, "0010", "cheaper_writes";
            11, "0011", "run_leases";
            12, "0012", "claims_and_hints";
            13, "0013", "causes";
            14, "0014", "run_claims";
            15, "0015", "plans";
            16, "0016", "run_states";
            17, "0017", "room_for_updates";
            18, "0018", "gates";
            19, "0019", "plan_counts";
            20, "0020", "attempt_logs";
            21, "0021", "workers";
        }
    };
    ($($version:literal, $number:literal, $name:literal;)*) => {
        &[$($crate::Migration {
            version: $version,
            name: $name,
            up: $crate::migrations!(@file $number, $name, ".up.sql"),
            down: $crate::migrations!(@file $number, $name, ".down.sql"),
        }),*]
    };
    (@file $number:literal, $name:literal, $end:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/", $number, "_", $name, $end))
    };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Up,
    Down,
}

/// A migration that was or would be executed.
#[derive(Debug, Clone, Copy)]
pub struct MigrationStep {
    pub migration: &'static Migration,
    pub direction: Direction,
}

impl MigrationStep {
    pub fn sql(&self) -> &'static str {
        match self.direction {
            Direction::Up => self.migration.up,
            Direction::Down => self.migration.down,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedMigration {
    pub version: u32,
    pub name: String,
    pub applied_at: Timestamp,
}

impl FromRow for AppliedMigration {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok(Self { version: row.count("version")?, name: row.get()?, applied_at: row.timestamp()? })
    }
}

/// The schema version of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaStatus {
    /// In order; empty for a database without a Redrive schema.
    pub applied: Vec<AppliedMigration>,
    pub known: &'static [Migration],
}

impl SchemaStatus {
    /// 0 before the first migration.
    pub fn current(&self) -> u32 {
        self.applied.last().map_or(0, |migration| migration.version)
    }

    pub fn latest(&self) -> u32 {
        latest_version(self.known)
    }

    /// Known migrations that the database does not have.
    pub fn pending(&self) -> &'static [Migration] {
        self.known.get(self.applied.len()..).unwrap_or_default()
    }
}

/// Changes the schema of a database in any version, unlike a [`Store`](crate::Store), which needs
/// the latest version.
#[async_trait]
pub trait Migrator: Send + Sync {
    /// In order.
    fn migrations(&self) -> &'static [Migration];

    /// Reads the schema version. Changes nothing.
    async fn status(&self) -> Result<SchemaStatus>;

    /// Moves the database up or down to a version in one transaction, and returns the executed
    /// steps. Concurrent calls are safe: the second call finds nothing left to do.
    async fn migrate_to(&self, version: u32, now: Timestamp) -> Result<Vec<MigrationStep>>;

    fn latest(&self) -> u32 {
        latest_version(self.migrations())
    }
}

/// 0 if there are no migrations.
pub fn latest_version(migrations: &[Migration]) -> u32 {
    migrations.last().map_or(0, |migration| migration.version)
}

/// Rejects a database in any version except `needed`.
pub fn require_version(current: u32, needed: u32) -> Result<()> {
    match current.cmp(&needed) {
        std::cmp::Ordering::Less => Err(Error::OlderSchema { found: current, needed }),
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(Error::NewerSchema { found: current, known: needed }),
    }
}

/// The steps from one version to another.
///
/// Rejects a database that is newer than the known migrations, because their down scripts are
/// unknown.
pub fn plan_steps(
    migrations: &'static [Migration],
    current: u32,
    target: u32,
) -> Result<Vec<MigrationStep>> {
    let known = latest_version(migrations);
    if current > known {
        return Err(Error::NewerSchema { found: current, known });
    }
    if target > known {
        return Err(Error::UnknownVersion { asked: target, known });
    }
    let between = |low: u32, high: u32| {
        migrations.iter().filter(move |m| m.version > low && m.version <= high)
    };
    Ok(if target >= current {
        between(current, target)
            .map(|migration| MigrationStep { migration, direction: Direction::Up })
            .collect()
    } else {
        between(target, current)
            .rev()
            .map(|migration| MigrationStep { migration, direction: Direction::Down })
            .collect()
    })
}
