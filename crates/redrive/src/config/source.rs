//! `[[source]]`: partitions, who extracts them and who judges them.

use redrive_core::Preset;

use super::{
    HandlerConfig, LimitsConfig, Policies, PolicyChoice, ScheduleConfig,
    handler::HandlerRole,
    log::UniqueNames,
    reader::{Section, Value},
    value::{number_in, set, text, unique_name, whole},
};

/// Neither kind of work may starve the other, so neither share is zero.
const BACKFILL_SHARES: std::ops::RangeInclusive<f64> = 0.01..=0.99;

/// Three of ten partitions, unless given.
const BACKFILL_SHARE: f64 = 0.3;

/// Where partitions come from.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceConfig {
    /// Its name, the first part of every key.
    pub name: String,
    /// Whose data is extracted. Never empty.
    pub customers: Vec<String>,
    /// Which queries are extracted. Never empty.
    pub queries: Vec<String>,
    /// Who extracts.
    pub extract: HandlerConfig,
    /// The schema of its rows, where the extractor says nothing of it.
    pub schema_version: Option<String>,
    /// What the validator asks of a partition.
    pub validate: ValidationConfig,
    /// When to try again; the preset `partition` unless given.
    pub policy: PolicyChoice,
    /// When partitions become due by themselves, if they do.
    pub schedule: Option<ScheduleConfig>,
    /// The share of the work that goes to backfill while there is fresh data as well.
    pub backfill_share: f64,
    /// What it may use.
    pub limits: LimitsConfig,
}

/// What the validator asks beyond its own checks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ValidationConfig {
    /// The fewest rows.
    pub min_rows: Option<u64>,
    /// The most rows.
    pub max_rows: Option<u64>,
    /// A file with a JSON Schema that every row must fit, as written.
    pub schema: Option<String>,
    /// Who has the last word.
    pub handler: Option<HandlerConfig>,
}

impl SourceConfig {
    pub(super) fn read(
        s: &mut Section<'_>,
        policies: &Policies,
        names: &mut UniqueNames,
    ) -> Option<Self> {
        let name = s.require("name", unique_name("sources", names));
        let customers = s.require("customers", key_parts);
        let queries = s.require("queries", key_parts);
        let extract =
            s.require("extract", |value| HandlerConfig::read(value, HandlerRole::Extraction));
        let schema_version = s.get("schema-version", text);
        let validate = s.get("validate", |value| value.table(ValidationConfig::read));
        let policy = policies.choice(s, Preset::Partition);
        let schedule = s.get("schedule", |value| value.table(ScheduleConfig::read));
        let backfill_share = s.get("backfill-share", number_in(BACKFILL_SHARES));
        let limits = LimitsConfig::read(s);
        Some(Self {
            name: name?,
            customers: customers?,
            queries: queries?,
            extract: extract?,
            schema_version,
            validate: validate.unwrap_or_default(),
            policy: policy?,
            schedule,
            backfill_share: backfill_share.unwrap_or(BACKFILL_SHARE),
            limits,
        })
    }
}

impl ValidationConfig {
    fn read(s: &mut Section<'_>) -> Option<Self> {
        let min_rows = s.get("min-rows", whole(0..=u64::MAX));
        let max_rows = s.get("max-rows", |value| {
            let max = whole(0..=u64::MAX)(value.clone())?;
            match min_rows {
                Some(min) if max < min => value
                    .refuse(format!("{max} is not allowed"), format!("at least `min-rows`, {min}")),
                _ => Some(max),
            }
        });
        Some(Self {
            min_rows,
            max_rows,
            schema: s.get("schema", file_path),
            handler: s.get("handler", |value| HandlerConfig::read(value, HandlerRole::Other)),
        })
    }
}

/// Parts of a partition's key: any text but empty, over-long or with a NUL.
fn key_parts(value: Value<'_>) -> Option<Vec<String>> {
    let parts = set(key_part)(value.clone())?;
    if parts.is_empty() {
        return value.refuse("must not be empty", "give at least one");
    }
    Some(parts)
}

fn key_part(value: Value<'_>) -> Option<String> {
    let part = text(value.clone())?;
    let problem = if part.is_empty() {
        "it must not be empty"
    } else if part.contains('\0') {
        "it must not contain a NUL character"
    } else if part.len() > redrive_core::MAX_KEY_BYTES {
        "it is too long; 512 bytes are allowed"
    } else {
        return Some(part);
    };
    value.refuse("cannot be part of a key", problem)
}

/// A path as written; it counts from the folder of the file.
pub(super) fn file_path(value: Value<'_>) -> Option<String> {
    let path = text(value.clone())?;
    if path.is_empty() || path.contains('\0') {
        return value.refuse("not the name of a file", "write a path, from this file's folder");
    }
    Some(path)
}
