//! `[policy.NAME]`, and the `policy` of a queue, a source or a stage.

use std::collections::BTreeSet;

use redrive_core::{Backoff, Code, InvalidPolicy, Policy, PolicySpec, Preset, Retriable};
use toml::de::DeValue;

use super::{
    reader::{Section, Value},
    value::{duration, list, number, parsed, shorten, whole, word, wrong_name},
};
use crate::nearest::suggestion;

/// A policy that a queue, a source or a stage uses: by name, or written inline.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyChoice {
    /// `None` for an inline policy.
    pub name: Option<String>,
    pub policy: Policy,
}

/// All named policies: the presets, then the `[policy.NAME]` sections of the file.
#[derive(Debug, Clone)]
pub struct Policies {
    named: Vec<(String, Policy)>,
    /// Names of invalid policies. Using one is not reported as a second problem.
    broken: BTreeSet<String>,
}

impl Default for Policies {
    fn default() -> Self {
        let presets = Preset::ALL.map(|preset| (preset.name().to_owned(), preset.policy()));
        Self { named: presets.into(), broken: BTreeSet::new() }
    }
}

impl Policies {
    pub fn get(&self, name: &str) -> Option<&Policy> {
        let found = self.named.iter().find(|(known, _)| known == name);
        found.map(|(_, policy)| policy)
    }

    /// All policies with their names, presets first.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Policy)> + Clone {
        self.named.iter().map(|(name, policy)| (name.as_str(), policy))
    }

    /// The policies of the file, without the presets.
    pub fn of_file(&self) -> impl Iterator<Item = (&str, &Policy)> {
        self.iter().skip(Preset::ALL.len())
    }

    /// Suggests a policy for an unknown name.
    pub fn suggestion(&self, name: &str) -> String {
        let broken = self.broken.iter().map(String::as_str);
        suggestion(name, self.iter().map(|(name, _)| name).chain(broken))
    }

    pub(super) fn read(value: Value<'_>) -> Self {
        let mut policies = Self::default();
        value.named(|name, value| {
            if Preset::from_name(name).is_some() {
                return value.refuse::<()>(
                    format!("{name:?} is the name of a preset"),
                    "presets cannot be changed; choose another name",
                );
            }
            if let Some(problem) = wrong_name(name) {
                return value.refuse(format!("{:?} is not a name", shorten(name)), problem);
            }
            match value.table(|s| read(s, PolicySpec::default())) {
                Some(policy) => policies.named.push((name.to_owned(), policy)),
                None => _ = policies.broken.insert(name.to_owned()),
            }
            Some(())
        });
        policies
    }

    /// Reads the `policy` key of a section: a name, or a table that overrides settings of the preset.
    pub(super) fn choice(&self, s: &mut Section<'_>, preset: Preset) -> Option<PolicyChoice> {
        let Some(value) = s.value("policy") else {
            return Some(PolicyChoice {
                name: Some(preset.name().to_owned()),
                policy: preset.policy(),
            });
        };
        let DeValue::String(name) = value.node else {
            if !matches!(value.node, DeValue::Table(_)) {
                return value.refuse_type("the name of a policy, or a table");
            }
            let policy = value.table(|s| read(s, preset.spec()))?;
            return Some(PolicyChoice { name: None, policy });
        };
        if self.broken.contains(name.as_ref()) {
            return None;
        }
        match self.get(name) {
            Some(policy) => {
                Some(PolicyChoice { name: Some(name.to_string()), policy: policy.clone() })
            }
            None => value.refuse_with_help(
                format!("{name:?} is not a policy"),
                "neither a preset nor in this file",
                self.suggestion(name),
            ),
        }
    }
}

/// Reads the settings of a policy; absent ones keep the value of `start`.
fn read(s: &mut Section<'_>, start: PolicySpec) -> Option<Policy> {
    let problems_before = s.problem_count();
    let base = s.get("base", duration).unwrap_or(start.base);
    let cap = s.get("cap", duration).unwrap_or(start.cap);
    let comparable = s.problem_count() == problems_before;
    let spec = PolicySpec {
        max_attempts: s
            .get("max-attempts", or_none(whole(0..=u32::MAX)))
            .unwrap_or(start.max_attempts),
        max_age: s.get("max-age", or_none(duration)).unwrap_or(start.max_age),
        backoff: s.get("backoff", word(&BACKOFFS)).unwrap_or(start.backoff),
        base,
        multiplier: s.get("multiplier", number).unwrap_or(start.multiplier),
        cap,
        jitter: s.get("jitter", parsed).unwrap_or(start.jitter),
        retriable: s.get("retriable", retriable).unwrap_or(start.retriable),
        max_hint: s.get("max-hint", duration).unwrap_or(start.max_hint),
        max_deferrals: s.get("max-deferrals", whole(0..=u32::MAX)).unwrap_or(start.max_deferrals),
    };
    Policy::new(spec).map_err(|invalid| report(s, &invalid, comparable, |field| field)).ok()
}

/// Notes the problems of a policy at the keys that cause them. `key_of` maps a field to its key. If
/// `base` or `cap` is invalid, `comparable` is false and the comparison of the two is skipped.
pub(super) fn report(
    s: &mut Section<'_>,
    invalid: &InvalidPolicy,
    comparable: bool,
    key_of: impl Fn(&'static str) -> &'static str,
) {
    for problem in invalid.problems() {
        if problem.field == "cap" && !comparable {
            continue;
        }
        let message = format!("{} is not allowed", problem.value);
        if let Some(value) = s.value(key_of(problem.field)) {
            value.refuse::<()>(message, &problem.allowed);
        } else {
            // Only the cap can be invalid while absent: the base exceeds its default.
            let blamed = s.value(key_of("base")).unwrap_or_else(|| s.whole().clone());
            let cap = key_of(problem.field);
            blamed.refuse::<()>(
                format!("is longer than the default `{cap}`, {}", problem.value),
                format!("set `{cap}` to at least this"),
            );
        }
    }
}

const BACKOFFS: [(&str, Backoff); 3] =
    [("fixed", Backoff::Fixed), ("linear", Backoff::Linear), ("exponential", Backoff::Exponential)];

/// `"none"` removes a limit.
fn or_none<'a, T>(
    limit: impl Fn(Value<'a>) -> Option<T>,
) -> impl Fn(Value<'a>) -> Option<Option<T>> {
    move |value| match value.node {
        DeValue::String(word) if word == "none" => Some(None),
        _ => limit(value).map(Some),
    }
}

fn retriable(value: Value<'_>) -> Option<Retriable> {
    match value.node {
        DeValue::Array(_) => list(code)(value).map(Retriable::Codes),
        DeValue::String(_) => {
            let words = [
                ("by-class", Retriable::ByClass),
                ("all", Retriable::All),
                ("none", Retriable::None),
            ];
            word(&words)(value)
        }
        _ => value.refuse_type("\"by-class\", \"all\", \"none\" or a list of codes"),
    }
}

fn code(value: Value<'_>) -> Option<Code> {
    match value.node {
        DeValue::Integer(_) => whole(0..=u32::MAX)(value).map(Code::Number),
        DeValue::String(_) => parsed(value),
        _ => value.refuse_type("a code: a whole number such as 429, or a name such as \"timeout\""),
    }
}
