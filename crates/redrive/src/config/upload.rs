//! `[[upload]]`: items, where they go and how often they are sent again.

use std::path::PathBuf;

use http::Method;
use redrive_core::{Policy, PolicySpec, Preset};
use redrive_engine::HttpSpec;

use super::{
    HandlerConfig,
    handler::HandlerRole,
    http::{headers, http_url},
    limits::{concurrency, lease, timeout},
    log::UniqueNames,
    policy::report,
    reader::Section,
    source::file_path,
    value::{duration, flag, number, unique_name, whole},
};

/// More retries inside one call than this and the call never ends.
const MAX_IN_CALL_RETRIES: u32 = 100;

const DEFAULT_CONCURRENCY: u32 = 4;
const DEFAULT_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60);
const DEFAULT_LEASE: std::time::Duration = std::time::Duration::from_secs(30);
const DEFAULT_IN_CALL_RETRIES: u32 = 3;

/// A place that items are uploaded to.
#[derive(Debug, Clone, PartialEq)]
pub struct UploadConfig {
    /// Its name.
    pub name: String,
    /// Where items are posted, and with which headers.
    pub request: HttpSpec,
    /// Who says whether an upload may start; without it, it always may.
    pub ready: Option<HandlerConfig>,
    /// How many items are sent at once.
    pub concurrency: u32,
    /// How long one item may take.
    pub timeout: std::time::Duration,
    /// How long a group stays with an upload that gives no sign of life.
    pub lease: std::time::Duration,
    /// A file that is told of every give-up, as JSON lines; a relative one counts from the folder of
    /// the file.
    pub giveup_file: Option<PathBuf>,
    /// Whether a partial success is left as it is.
    pub disable_retry: bool,
    /// How often one call sends again what was rejected.
    pub max_in_call_retries: u32,
    /// The waits inside a call, and how many attempts an item has in its life.
    pub policy: Policy,
}

impl UploadConfig {
    pub(super) fn read(s: &mut Section<'_>, names: &mut UniqueNames) -> Option<Self> {
        let name = s.require("name", unique_name("uploads", names));
        let url = s.require("url", http_url);
        let headers = s.get("headers", headers);
        let private_addresses = s.get("private-addresses", flag);
        let ready = s.get("ready", |value| HandlerConfig::read(value, HandlerRole::Other));
        let concurrency = s.get("concurrency", concurrency());
        let timeout = s.get("timeout", timeout());
        let lease = s.get("lease", lease());
        let giveup_file = s.get("giveup-file", file_path).map(PathBuf::from);
        let disable_retry = s.get("disable-retry", flag);
        let retries = s.get("max-in-call-retries", whole(0..=MAX_IN_CALL_RETRIES));
        let policy = read_policy(s);
        let mut request = HttpSpec::new(Method::POST, url?);
        request.headers = headers.unwrap_or_default();
        request.private_addresses = private_addresses.unwrap_or(request.private_addresses);
        Some(Self {
            name: name?,
            request,
            ready,
            concurrency: concurrency.unwrap_or(DEFAULT_CONCURRENCY),
            timeout: timeout.unwrap_or(DEFAULT_TIMEOUT),
            lease: lease.unwrap_or(DEFAULT_LEASE),
            giveup_file,
            disable_retry: disable_retry.unwrap_or(false),
            max_in_call_retries: retries.unwrap_or(DEFAULT_IN_CALL_RETRIES),
            policy: policy?,
        })
    }
}

/// An upload has few settings of its own; the rest is the preset `upload`.
fn read_policy(s: &mut Section<'_>) -> Option<Policy> {
    let problems_before = s.problem_count();
    let preset = Preset::Upload.spec();
    let base = s.get("backoff-base", duration).unwrap_or(preset.base);
    let cap = s.get("backoff-cap", duration).unwrap_or(preset.cap);
    let comparable = s.problem_count() == problems_before;
    let spec = PolicySpec {
        max_attempts: s.get("max-item-attempts", whole(0..=u32::MAX)).or(preset.max_attempts),
        base,
        multiplier: s.get("backoff-multiplier", number).unwrap_or(preset.multiplier),
        cap,
        ..preset
    };
    Policy::new(spec).map_err(|invalid| report(s, &invalid, comparable, key_of)).ok()
}

fn key_of(field: &'static str) -> &'static str {
    match field {
        "max-attempts" => "max-item-attempts",
        "base" => "backoff-base",
        "multiplier" => "backoff-multiplier",
        "cap" => "backoff-cap",
        other => other,
    }
}
