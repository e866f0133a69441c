//! `[[upload]]`: the URL that items are posted to, and their retries.

use std::path::PathBuf;

use http::Method;
use redrive_core::{PolicyOverrides, Preset};
use redrive_engine::{DEFAULT_IN_CALL_RETRIES, HttpSpec};

use super::{
    GateConfig, HandlerConfig, PolicyChoice, gate,
    handler::HandlerRole,
    http::{conventions, headers, http_url},
    limits::{concurrency, lease, timeout},
    log::UniqueNames,
    policy::report,
    reader::Section,
    source::file_path,
    value::{duration, flag, number, unique_name, whole},
};

/// Bounds the duration of one call.
const MAX_IN_CALL_RETRIES: u32 = 100;

const DEFAULT_CONCURRENCY: u32 = 4;
const DEFAULT_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60);
const DEFAULT_LEASE: std::time::Duration = std::time::Duration::from_secs(30);

#[derive(Debug, Clone, PartialEq)]
pub struct UploadConfig {
    pub name: String,
    /// The request that posts an item.
    pub request: HttpSpec,
    /// Decides whether an upload may start. Without a handler every upload may.
    pub ready: Option<HandlerConfig>,
    /// Items sent at once.
    pub concurrency: u32,
    /// Time limit per item.
    pub timeout: std::time::Duration,
    /// How long a group stays claimed by an upload that stops renewing.
    pub lease: std::time::Duration,
    /// The file that receives every give-up as a JSON line; path as written.
    pub giveup_file: Option<PathBuf>,
    /// Whether one call sends rejected items only once.
    pub disable_retry: bool,
    /// How often one call sends rejected items again.
    pub max_in_call_retries: u32,
    /// The waits within a call, and the attempts per item over all calls.
    pub policy: PolicyChoice,
    /// The gates that the items pass.
    pub gates: Vec<GateConfig>,
}

impl UploadConfig {
    pub(super) fn read(
        s: &mut Section<'_>,
        gates: &[GateConfig],
        names: &mut UniqueNames,
    ) -> Option<Self> {
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
        let gates = gate::gates(s, gates);
        let conventions = conventions(s);
        let mut request = HttpSpec::new(Method::POST, url?);
        request.conventions = conventions;
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
            gates,
        })
    }
}

/// Overrides a few settings of the preset `upload`.
fn read_policy(s: &mut Section<'_>) -> Option<PolicyChoice> {
    let problems_before = s.problem_count();
    let (base, cap) = (s.get("backoff-base", duration), s.get("backoff-cap", duration));
    let comparable = s.problem_count() == problems_before;
    let overrides = PolicyOverrides {
        max_attempts: s.get("max-item-attempts", whole(0..=u32::MAX)).map(Some),
        base,
        multiplier: s.get("backoff-multiplier", number),
        cap,
        ..PolicyOverrides::default()
    };
    let choice = PolicyChoice::over(Preset::Upload, None, overrides);
    choice.map_err(|invalid| report(s, &invalid, comparable, key_of)).ok()
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
