//! The view of a schema migration.

use redrive_store::SchemaStatus;
use serde::Serialize;

/// A schema migration.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MigrationView {
    /// Counts from 1, without gaps.
    pub version: u32,
    pub name: String,
    /// Null when the migration is pending.
    pub applied_at: Option<String>,
}

impl MigrationView {
    /// Applied migrations, then pending ones.
    pub fn all(schema: &SchemaStatus) -> Vec<Self> {
        let applied = schema.applied.iter().map(|migration| Self {
            version: migration.version,
            name: migration.name.clone(),
            applied_at: Some(migration.applied_at.to_string()),
        });
        let pending = schema.pending().iter().map(|migration| Self {
            version: migration.version,
            name: migration.name.to_owned(),
            applied_at: None,
        });
        applied.chain(pending).collect()
    }
}
