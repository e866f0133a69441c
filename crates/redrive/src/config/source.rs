//! `[[source]]`: partitions, their extractor and their validation.

use redrive_core::Preset;
use redrive_engine::verdict_code;

use super::{
    GateConfig, HandlerConfig, LimitsConfig, Policies, PolicyChoice, ScheduleConfig, gate,
    handler::{HandlerRole, codes_of},
    log::UniqueNames,
    reader::{Section, Value},
    value::{number_in, set, text, unique_name, whole},
};

/// Neither fresh data nor backfill may starve the other.
const BACKFILL_SHARES: std::ops::RangeInclusive<f64> = 0.01..=0.99;

/// Default share: three of ten partitions.
const BACKFILL_SHARE: f64 = 0.3;

#[derive(Debug, Clone, PartialEq)]
pub struct SourceConfig {
    /// The first part of every partition key.
    pub name: String,
    /// Never empty.
    pub customers: Vec<String>,
    /// Never empty.
    pub queries: Vec<String>,
    pub extract: HandlerConfig,
    /// The schema version of rows for which the extractor reports none.
    pub schema_version: Option<String>,
    pub validate: ValidationConfig,
    /// Default: the preset `partition`.
    pub policy: PolicyChoice,
    /// Without a schedule, only operators request partitions.
    pub schedule: Option<ScheduleConfig>,
    /// The share of claims for backfill while fresh data is pending too.
    pub backfill_share: f64,
    pub limits: LimitsConfig,
    /// The gates that the partitions pass.
    pub gates: Vec<GateConfig>,
}

/// Requirements of a partition, in addition to the built-in checks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ValidationConfig {
    pub min_rows: Option<u64>,
    pub max_rows: Option<u64>,
    /// The path of a JSON Schema for rows, as written.
    pub schema: Option<String>,
    /// Judges the partition after all other checks passed.
    pub handler: Option<HandlerConfig>,
}

impl SourceConfig {
    pub(super) fn read(
        s: &mut Section<'_>,
        policies: &Policies,
        gates: &[GateConfig],
        names: &mut UniqueNames,
    ) -> Option<Self> {
        let name = s.require("name", unique_name("sources", names));
        let customers = s.require("customers", key_parts);
        let queries = s.require("queries", key_parts);
        let extract =
            s.require("extract", |value| HandlerConfig::read(value, HandlerRole::Extraction));
        let schema_version = s.get("schema-version", text);
        let validate = s.get("validate", |value| value.table(ValidationConfig::read));
        let validator = validate.as_ref().and_then(|it: &ValidationConfig| it.handler.as_ref());
        let stated = [codes_of(extract.as_ref()), codes_of(validator)].concat();
        let codes: Vec<String> =
            verdict_code::ALL.map(str::to_owned).into_iter().chain(stated).collect();
        let policy = policies.choice(s, Preset::Partition, &codes);
        let schedule = s.get("schedule", |value| value.table(ScheduleConfig::read));
        let backfill_share = s.get("backfill-share", number_in(BACKFILL_SHARES));
        let limits = LimitsConfig::read(s);
        let gates = gate::gates(s, gates);
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
            gates,
        })
    }
}

impl SourceConfig {
    pub(super) fn handlers(&self) -> impl Iterator<Item = &HandlerConfig> {
        [&self.extract].into_iter().chain(&self.validate.handler)
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

/// Parts of a partition key: not empty, not too long, without NUL characters.
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
        "the text must not be empty"
    } else if part.contains('\0') {
        "the text must not contain a NUL character"
    } else if part.len() > redrive_core::MAX_KEY_BYTES {
        "the text is too long; 512 bytes are allowed"
    } else {
        return Some(part);
    };
    value.refuse("cannot be part of a key", problem)
}

/// A path as written; relative paths are resolved from the folder of the file.
pub(super) fn file_path(value: Value<'_>) -> Option<String> {
    let path = text(value.clone())?;
    if path.is_empty() || path.contains('\0') {
        return value.refuse("is not a path", "write a path relative to the folder of this file");
    }
    Some(path)
}
