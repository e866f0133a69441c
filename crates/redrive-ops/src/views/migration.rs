//! A step of the schema.

use redrive_store::SchemaStatus;
use serde::Serialize;

/// A migration, and whether the store has it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MigrationView {
    /// 1, 2, 3 … without gaps.
    pub version: u32,
    /// What it brings.
    pub name: String,
    /// When the store got it; nothing, if it does not have it.
    pub applied_at: Option<String>,
}

impl MigrationView {
    /// Those that a store has, and then those that are known besides.
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
