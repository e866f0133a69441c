//! `[policy.NAME]`, and the `policy` of a queue, a source, a stage or a notifier (POL-10).

use std::collections::BTreeSet;

use redrive_core::{
    AT_LEAST_BASE, Backoff, Code, InvalidPolicy, Policy, PolicyOverrides, PolicySpec, Preset,
    Retriable, named,
};
use toml::de::DeValue;

use super::{
    policy_rules,
    reader::{Section, Value},
    value::{duration, list, number, parsed, shorten, whole, word, wrong_name},
};
use crate::nearest::suggestion;

/// The policy of a queue, a source, an upload, a stage or a notifier: a preset with overrides.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyChoice {
    /// The `[policy.NAME]` section that the overrides are from; `None` if they are written inline, or if there are none.
    pub name: Option<String>,
    pub preset: Preset,
    pub overrides: PolicyOverrides,
    pub policy: Policy,
}

impl PolicyChoice {
    pub(super) fn over(
        preset: Preset,
        name: Option<&str>,
        overrides: PolicyOverrides,
    ) -> Result<Self, InvalidPolicy> {
        let policy = Policy::new(overrides.over(preset.spec()))?;
        Ok(Self { name: name.map(str::to_owned), preset, overrides, policy })
    }

    /// The name of the policy: of its section or its preset, or `inline`.
    pub fn title(&self) -> &str {
        match &self.name {
            Some(name) => name,
            None if self.overrides == PolicyOverrides::default() => self.preset.name(),
            None => "inline",
        }
    }
}

/// The `[policy.NAME]` sections. A section overrides settings of the preset of each place that uses it, as the same
/// table written inline does there.
#[derive(Debug, Clone, Default)]
pub struct Policies {
    named: Vec<(String, PolicyOverrides)>,
    /// Names of invalid policies. Using one is not reported as a second problem.
    broken: BTreeSet<String>,
}

impl Policies {
    pub fn iter(&self) -> impl Iterator<Item = (&str, &PolicyOverrides)> {
        self.named.iter().map(|(name, overrides)| (name.as_str(), overrides))
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
            match value.table(|s| read(s, None)) {
                Some(overrides) => policies.named.push((name.to_owned(), overrides)),
                None => _ = policies.broken.insert(name.to_owned()),
            }
            Some(())
        });
        policies
    }

    /// Reads the `policy` key of a section: a name, or a table that overrides settings of the preset. `codes` are the
    /// names that the handler there can state.
    pub(super) fn choice(
        &self,
        s: &mut Section<'_>,
        preset: Preset,
        codes: &[String],
    ) -> Option<PolicyChoice> {
        let Some(value) = s.value("policy") else {
            return PolicyChoice::over(preset, None, PolicyOverrides::default()).ok();
        };
        let name = match value.node {
            DeValue::String(name) => Some(name.as_ref()),
            DeValue::Table(_) => None,
            _ => return value.refuse_type("the name of a policy, or a table"),
        };
        if let Some(preset) = name.and_then(Preset::from_name) {
            return PolicyChoice::over(preset, None, PolicyOverrides::default()).ok();
        }
        let overrides = match name {
            None => value.clone().table(|s| read(s, Some(preset)))?,
            Some(name) => self.named(name, &value)?,
        };
        if let Some(problem) = misplaced(&overrides, preset) {
            return value.refuse(problem, "remove it here");
        }
        // Partitions are retried whatever failed.
        let retriable = overrides.retriable.clone().filter(|_| preset != Preset::Partition);
        let listed = PolicyOverrides { retriable, ..overrides.clone() };
        if refuse_unknown_codes(&value, &listed, codes) {
            return None;
        }
        let choice = PolicyChoice::over(preset, name, overrides);
        choice
            .map_err(|invalid| {
                value.refuse::<()>(
                    format!("does not fit the preset {}: {invalid}", preset.name()),
                    "set both `base` and `cap`",
                )
            })
            .ok()
    }

    /// Checks the codes of the policies that no place uses. `codes` are the names that any handler can state.
    pub(super) fn check_unused(&self, value: Value<'_>, used: &[&str], codes: &[String]) {
        value.named(|name, value| {
            let unused = self.iter().find(|(known, _)| *known == name && !used.contains(known));
            unused.map(|(_, overrides)| refuse_unknown_codes(&value, overrides, codes))
        });
    }

    fn named(&self, name: &str, value: &Value<'_>) -> Option<PolicyOverrides> {
        if self.broken.contains(name) {
            return None;
        }
        let found = self.named.iter().find(|(known, _)| known == name);
        let presets = Preset::ALL.map(Preset::name).into_iter();
        match found {
            Some((_, overrides)) => Some(overrides.clone()),
            None => value.refuse_with_help(
                format!("{name:?} is not a policy"),
                "neither a preset nor in this file",
                suggestion(name, presets.chain(self.named.iter().map(|(name, _)| name.as_str()))),
            ),
        }
    }
}
/// Reads the settings of a policy. Checks them over a preset, or by themselves: then `base` and `cap` are compared only
/// if both are there.
fn read(s: &mut Section<'_>, preset: Option<Preset>) -> Option<PolicyOverrides> {
    let problems_before = s.problem_count();
    let (base, cap) = (s.get("base", duration), s.get("cap", duration));
    let comparable = s.problem_count() == problems_before
        && (preset.is_some() || base.is_some() == cap.is_some());
    let overrides = PolicyOverrides {
        max_attempts: s.get("max-attempts", or_none(whole(0..=u32::MAX))),
        max_age: s.get("max-age", or_none(duration)),
        backoff: s.get("backoff", word(&BACKOFFS)),
        base,
        multiplier: s.get("multiplier", number),
        cap,
        jitter: s.get("jitter", parsed),
        retriable: s.get("retriable", retriable),
        max_hint: s.get("max-hint", duration),
        max_deferrals: s.get("max-deferrals", whole(0..=u32::MAX)),
        max_lost: s.get("max-lost", or_none(whole(0..=u32::MAX))),
        max_logical_age: s.get("max-logical-age", or_none(duration)),
        rules: None,
    };
    let spec = overrides.over(preset.map_or_else(PolicySpec::default, Preset::spec));
    if let Err(invalid) = Policy::new(spec.clone()) {
        report(s, &invalid, comparable, |field| field);
    }
    let rules = s.each("rule", |s| policy_rules::read(s, &spec, preset.is_some()));
    let overrides = PolicyOverrides { rules: (!rules.is_empty()).then_some(rules), ..overrides };
    (s.problem_count() == problems_before).then_some(overrides)
}

/// A setting that has no effect on the units of a preset.
fn misplaced(overrides: &PolicyOverrides, preset: Preset) -> Option<&'static str> {
    let counts_lost = matches!(preset, Preset::Run | Preset::Stage);
    if overrides.max_lost.is_some() && !counts_lost {
        return Some("`max-lost` has no effect: only runs and samples count lost workers");
    }
    if overrides.max_logical_age.is_some() && preset != Preset::Partition {
        return Some("`max-logical-age` has no effect: only partitions have a logical date");
    }
    let mut rules = overrides.rules.iter().flatten().filter(|_| preset == Preset::Partition);
    rules.find_map(|rule| {
        if rule.overrides.retriable.is_some() {
            return Some("`retriable` of a rule has no effect: every failed partition is retried");
        }
        let origin = "`origin` of a rule has no effect: partitions keep the code of a failure";
        (!rule.when.origins.is_empty()).then_some(origin)
    })
}

/// Refuses the names in `retriable` and in rules that no failure can have (CLS-8). Returns whether there are any.
fn refuse_unknown_codes(value: &Value<'_>, overrides: &PolicyOverrides, codes: &[String]) -> bool {
    let rules = || overrides.rules.iter().flatten();
    let of_rules = rules().flat_map(|rule| rule.when.codes.iter());
    let retriable = rules().map(|rule| &rule.overrides).chain([overrides]);
    let retriable = retriable.filter_map(|overrides| match &overrides.retriable {
        Some(Retriable::Codes(codes)) => Some(codes),
        _ => None,
    });
    let names = retriable.flatten().chain(of_rules).filter_map(|code| match code {
        Code::Name(name) => Some(name.as_str()),
        Code::Number(_) => None,
    });
    let stated = |name: &str| codes.iter().any(|code| code == name);
    let unknown: Vec<&str> = names.filter(|it| !named::is_known(it) && !stated(it)).collect();
    for name in &unknown {
        let known = named::ALL.into_iter().chain(codes.iter().map(String::as_str));
        value.refuse_with_help::<()>(
            format!("no failure here has the code {name:?}"),
            format!("what the handler states is declared there: codes = [{name:?}]"),
            suggestion(usual_name(name), known),
        );
    }
    !unknown.is_empty()
}

/// What Redrive calls a failure that C, Node and Python name after its error number.
fn usual_name(name: &str) -> &str {
    match name.to_ascii_lowercase().trim_start_matches(':') {
        "econnrefused" | "conn_refused" | "connectionrefusederror" => named::CONNECTION_REFUSED,
        "econnreset" | "conn_reset" | "epipe" | "connectionreseterror" => named::CONNECTION_RESET,
        "etimedout" => named::CONNECTION_TIMEOUT,
        "timeouterror" => named::TIMEOUT,
        "enotfound" | "eai_again" | "gaierror" => named::DNS,
        _ => name,
    }
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
        if !comparable && problem.allowed.starts_with(AT_LEAST_BASE) {
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
pub(super) fn or_none<'a, T>(
    limit: impl Fn(Value<'a>) -> Option<T>,
) -> impl Fn(Value<'a>) -> Option<Option<T>> {
    move |value| match value.node {
        DeValue::String(word) if word == "none" => Some(None),
        _ => limit(value).map(Some),
    }
}

pub(super) fn retriable(value: Value<'_>) -> Option<Retriable> {
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

pub(super) fn code(value: Value<'_>) -> Option<Code> {
    match value.node {
        DeValue::Integer(_) => whole(0..=u32::MAX)(value).map(Code::Number),
        DeValue::String(_) => parsed(value),
        _ => value.refuse_type("a code: a whole number such as 429, or a name such as \"timeout\""),
    }
}
