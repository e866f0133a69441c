//! The views of a policy and of its waits.

use std::collections::BTreeMap;

use redrive_core::{
    Backoff, Cause, Class, Code, PolicyOverrides, PolicyRule, Retriable, RuleMatch, Scheduled,
};
use serde::Serialize;
use serde_json::Value;

use crate::{
    DeclaredPolicy,
    words::{human, seconds},
};

/// A policy with every setting, at one place.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PolicyView {
    /// The name of the section or the preset, or `inline`.
    pub name: String,
    /// Where the policy applies, such as `queue:orders`; null for a preset, and for a policy that no place uses.
    pub place: Option<String>,
    /// Executions including the first; null means no limit.
    pub max_attempts: Option<u32>,
    /// Retries end this long after the first attempt, in seconds; null means no limit.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<f64>))]
    pub max_age_s: Option<Value>,
    /// `fixed`, `linear` or `exponential`.
    pub backoff: &'static str,
    /// The first wait, in seconds.
    #[cfg_attr(feature = "openapi", schema(value_type = f64))]
    pub base_s: Value,
    /// The factor of an exponential backoff.
    pub multiplier: f64,
    /// The longest wait before jitter, in seconds.
    #[cfg_attr(feature = "openapi", schema(value_type = f64))]
    pub cap_s: Value,
    /// `none`, `full`, a duration or a percentage.
    pub jitter: String,
    /// `by_class`, `all`, `none`, or a list of codes.
    pub retriable: Value,
    /// The longest `Retry-After` that is honoured, in seconds.
    #[cfg_attr(feature = "openapi", schema(value_type = f64))]
    pub max_hint_s: Value,
    /// Consecutive server hints that do not count as attempts.
    pub max_deferrals: u32,
    /// Lost workers until a unit is given up; null counts a lost worker as an attempt.
    pub max_lost: Option<u32>,
    /// Retries of a partition end this long after its logical date, in seconds; null means no limit.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<f64>))]
    pub max_logical_age_s: Option<Value>,
    /// Other settings for some failures: the first rule that matches counts.
    pub rules: Vec<PolicyRuleView>,
    /// Where each setting is from, by its name in the configuration: `preset run`, `policy gentle`, `inline`.
    pub origins: BTreeMap<&'static str, String>,
    #[serde(skip)]
    pub declared: DeclaredPolicy,
}

impl PolicyView {
    pub fn new(declared: &DeclaredPolicy) -> Self {
        let spec = declared.policy.spec();
        let origins = PolicyOverrides::SETTINGS.map(|name| (name, declared.origin(name)));
        Self {
            name: declared.name.clone(),
            place: declared.place.clone(),
            max_attempts: spec.max_attempts,
            max_age_s: spec.max_age.map(seconds),
            backoff: spec.backoff.name(),
            base_s: seconds(spec.base),
            multiplier: spec.multiplier,
            cap_s: seconds(spec.cap),
            jitter: spec.jitter.to_string(),
            retriable: retriable(&spec.retriable),
            max_hint_s: seconds(spec.max_hint),
            max_deferrals: spec.max_deferrals,
            max_lost: spec.max_lost,
            max_logical_age_s: spec.max_logical_age.map(seconds),
            rules: spec.rules.iter().map(PolicyRuleView::new).collect(),
            origins: origins.into(),
            declared: declared.clone(),
        }
    }

    pub fn attempts_in_words(&self) -> String {
        self.max_attempts.map_or("no limit".to_owned(), |max| max.to_string())
    }

    /// Such as `exponential 1m × 2^(n−1), cap 1h`.
    pub fn backoff_in_words(&self) -> String {
        let spec = self.declared.policy.spec();
        let (base, cap) = (human(spec.base), human(spec.cap));
        match spec.backoff {
            Backoff::Fixed => format!("fixed {base}"),
            Backoff::Linear => format!("linear {base} × n, cap {cap}"),
            Backoff::Exponential => {
                format!("exponential {base} × {}^(n−1), cap {cap}", spec.multiplier)
            }
        }
    }
}

/// Which failures a rule is about, and the settings that it overrides; the others are absent.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PolicyRuleView {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub code: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub class: Vec<&'static str>,
    /// Who or what ended the attempt, such as `timeout`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub origin: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub fingerprint: Vec<String>,
    /// Null means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<Option<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<f64>))]
    pub base_s: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multiplier: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<f64>))]
    pub cap_s: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retriable: Option<Value>,
}

impl PolicyRuleView {
    fn new(rule: &PolicyRule) -> Self {
        let RuleMatch { codes, classes, origins, fingerprints } = &rule.when;
        let overrides = &rule.overrides;
        Self {
            code: codes.iter().map(code).collect(),
            class: classes.iter().copied().map(Class::name).collect(),
            origin: origins.iter().copied().map(Cause::name).collect(),
            fingerprint: fingerprints.iter().map(ToString::to_string).collect(),
            max_attempts: overrides.max_attempts,
            base_s: overrides.base.map(seconds),
            multiplier: overrides.multiplier,
            cap_s: overrides.cap.map(seconds),
            jitter: overrides.jitter.map(|jitter| jitter.to_string()),
            retriable: overrides.retriable.as_ref().map(retriable),
        }
    }
}

fn retriable(retriable: &Retriable) -> Value {
    match retriable {
        Retriable::ByClass => "by_class".into(),
        Retriable::All => "all".into(),
        Retriable::None => "none".into(),
        Retriable::Codes(codes) => codes.iter().map(code).collect(),
    }
}

fn code(code: &Code) -> Value {
    match code {
        Code::Number(number) => (*number).into(),
        Code::Name(name) => name.as_str().into(),
    }
}

/// The wait after a failed attempt.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WaitView {
    pub attempt: u32,
    /// In seconds.
    #[cfg_attr(feature = "openapi", schema(value_type = f64))]
    pub delay_s: Value,
}

impl From<&Scheduled> for WaitView {
    fn from(wait: &Scheduled) -> Self {
        Self { attempt: wait.attempt, delay_s: seconds(wait.delay) }
    }
}
