//! `[[policy.NAME.rule]]`, and `rule` of an inline policy (POL-10).

use redrive_core::{Cause, Class, Policy, PolicyOverrides, PolicyRule, PolicySpec, RuleMatch};

use super::{
    policy::{code, or_none, report, retriable},
    reader::Section,
    value::{duration, list, number, parsed, whole, word},
};

const CLASSES: [(&str, Class); 4] = [
    ("final", Class::Final),
    ("retryable", Class::Retryable),
    ("rate_limited", Class::RateLimited { retry_after: None }),
    ("rate-limited", Class::RateLimited { retry_after: None }),
];

/// Reads a rule and checks it over the settings of its policy. Where the preset is not known yet, `base` and `cap` are
/// compared only if the rule has both.
pub(super) fn read(
    s: &mut Section<'_>,
    start: &PolicySpec,
    is_preset_known: bool,
) -> Option<PolicyRule> {
    let problems_before = s.problem_count();
    let origins = Cause::ALL.map(|cause| (cause.name(), cause));
    let when = RuleMatch {
        codes: s.get("code", list(code)).unwrap_or_default(),
        classes: s.get("class", list(word(&CLASSES))).unwrap_or_default(),
        origins: s.get("origin", list(word(&origins))).unwrap_or_default(),
        fingerprints: s.get("fingerprint", list(parsed)).unwrap_or_default(),
    };
    let (base, cap) = (s.get("base", duration), s.get("cap", duration));
    let is_read = s.problem_count() == problems_before;
    let overrides = PolicyOverrides {
        max_attempts: s.get("max-attempts", or_none(whole(0..=u32::MAX))),
        base,
        multiplier: s.get("multiplier", number),
        cap,
        jitter: s.get("jitter", parsed),
        retriable: s.get("retriable", retriable),
        ..PolicyOverrides::default()
    };
    if s.problem_count() == problems_before && when.is_empty() {
        let needed = "`code`, `class`, `origin` or `fingerprint`: what the rule is about";
        return s.whole().refuse("matches nothing in particular", needed);
    }
    if s.problem_count() == problems_before && overrides == PolicyOverrides::default() {
        let settings = PolicyRule::SETTINGS.map(|name| format!("`{name}`")).join(", ");
        return s.whole().refuse("changes nothing", format!("set one of {settings}"));
    }
    let is_comparable = is_read && (is_preset_known || base.is_some() && cap.is_some());
    if let Err(invalid) = Policy::new(overrides.over(start.clone())) {
        report(s, &invalid, is_comparable, |field| field);
    }
    (s.problem_count() == problems_before).then_some(PolicyRule { when, overrides })
}
