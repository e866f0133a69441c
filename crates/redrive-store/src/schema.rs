//! Migrations: numbered, append-only, up and down, the same numbers and names in every store.

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{Error, Result};

/// One step of the schema, with its way back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// 1, 2, 3 … without gaps.
    pub version: u32,
    /// What it brings.
    pub name: &'static str,
    /// The statements that bring it.
    pub up: &'static str,
    /// The statements that take it away.
    pub down: &'static str,
}

/// Which way a step goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Towards newer versions.
    Up,
    /// Towards older versions.
    Down,
}

/// A migration that was or would be run.
#[derive(Debug, Clone, Copy)]
pub struct MigrationStep {
    /// The migration.
    pub migration: &'static Migration,
    /// Which way.
    pub direction: Direction,
}

impl MigrationStep {
    /// The statements of this step.
    pub fn sql(&self) -> &'static str {
        match self.direction {
            Direction::Up => self.migration.up,
            Direction::Down => self.migration.down,
        }
    }
}

/// A migration that a database has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedMigration {
    /// Its version.
    pub version: u32,
    /// Its name.
    pub name: String,
    /// When it was applied.
    pub applied_at: Timestamp,
}

/// Where a database stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaStatus {
    /// The migrations it has, in order; none for a database that has nothing of ours yet.
    pub applied: Vec<AppliedMigration>,
    /// Those that this program knows.
    pub known: &'static [Migration],
}

impl SchemaStatus {
    /// The version of the database; 0 is before the first migration.
    pub fn current(&self) -> u32 {
        self.applied.last().map_or(0, |migration| migration.version)
    }

    /// The newest version this program knows.
    pub fn latest(&self) -> u32 {
        latest_version(self.known)
    }

    /// What this program knows and the database does not have.
    pub fn pending(&self) -> &'static [Migration] {
        self.known.get(self.applied.len()..).unwrap_or_default()
    }
}

/// Changes the schema of a database. It works on a database in any version, unlike a
/// [`Store`](crate::Store), which needs the latest.
#[async_trait]
pub trait Migrator: Send + Sync {
    /// The migrations this program knows, in order.
    fn migrations(&self) -> &'static [Migration];

    /// Where the database stands. Changes nothing.
    async fn status(&self) -> Result<SchemaStatus>;

    /// Moves the database to a version, up or down, and says which steps that took. All steps are
    /// one transaction. Two processes at once do no harm: the second finds nothing left to do.
    async fn migrate_to(&self, version: u32, now: Timestamp) -> Result<Vec<MigrationStep>>;

    /// The newest version this program knows.
    fn latest(&self) -> u32 {
        latest_version(self.migrations())
    }
}

/// The newest of some migrations.
pub fn latest_version(migrations: &[Migration]) -> u32 {
    migrations.last().map_or(0, |migration| migration.version)
}

/// Refuses a database in any version but the one that is needed.
pub fn require_version(current: u32, needed: u32) -> Result<()> {
    match current.cmp(&needed) {
        std::cmp::Ordering::Less => Err(Error::OlderSchema { found: current, needed }),
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(Error::NewerSchema { found: current, known: needed }),
    }
}

/// The steps from one version to another.
///
/// A database that is newer than the known migrations is refused: we do not know its way back.
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
