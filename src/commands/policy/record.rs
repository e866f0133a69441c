//! A policy as a record, and as a row of a list.

use std::time::Duration;

use redrive::{Code, PolicyRule, Retriable};
use redrive_ops::{views::PolicyView, words::human};
use serde::Serialize;

use crate::output::{TableColumn, TableRow};

fn limit(age: Option<Duration>) -> String {
    age.map_or("no limit".to_owned(), human)
}

/// Such as `code 529: base 30s, max-attempts 5`.
fn rule(rule: &PolicyRule) -> String {
    let overrides = &rule.overrides;
    let attempts = |max: Option<u32>| max.map_or("none".to_owned(), |max| max.to_string());
    let settings = [
        ("max-attempts", overrides.max_attempts.map(attempts)),
        ("base", overrides.base.map(human)),
        ("multiplier", overrides.multiplier.map(|multiplier| multiplier.to_string())),
        ("cap", overrides.cap.map(human)),
        ("jitter", overrides.jitter.map(|jitter| jitter.to_string())),
        ("retriable", overrides.retriable.as_ref().map(retriable)),
    ];
    let given = settings.into_iter().filter_map(|(name, value)| Some(format!("{name} {}", value?)));
    format!("{}: {}", rule.when, given.collect::<Vec<_>>().join(", "))
}

/// Each rule with its number.
fn rules(rules: &[PolicyRule]) -> String {
    let numbered = rules.iter().zip(1..).map(|(it, number)| format!("{number}. {}", rule(it)));
    let rules: Vec<String> = numbered.collect();
    if rules.is_empty() { "none".to_owned() } else { rules.join("; ") }
}

fn retriable(retriable: &Retriable) -> String {
    match retriable {
        Retriable::ByClass => "by class".to_owned(),
        Retriable::All => "all".to_owned(),
        Retriable::None => "none".to_owned(),
        Retriable::Codes(codes) => {
            let codes: Vec<String> = codes.iter().map(Code::to_string).collect();
            codes.join(", ")
        }
    }
}

impl TableRow for PolicyView {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("place"),
        TableColumn::text("policy"),
        TableColumn::text("max attempts"),
        TableColumn::text("max age"),
        TableColumn::text("backoff"),
        TableColumn::text("base"),
        TableColumn::text("multiplier"),
        TableColumn::text("cap"),
        TableColumn::text("jitter"),
        TableColumn::text("retriable"),
        TableColumn::text("max hint"),
        TableColumn::text("max deferrals"),
        TableColumn::text("max lost"),
        TableColumn::text("max logical age"),
        TableColumn::text("rules"),
    ];

    fn cells(&self) -> Vec<String> {
        let spec = self.declared.policy.spec();
        let with_origin =
            |setting: &str, value: String| format!("{value}  ({})", self.declared.origin(setting));
        let lost = spec.max_lost.map_or("counted as attempts".to_owned(), |max| max.to_string());
        vec![
            self.place.clone().unwrap_or_default(),
            self.name.clone(),
            with_origin("max-attempts", self.attempts_in_words()),
            with_origin("max-age", limit(spec.max_age)),
            with_origin("backoff", self.backoff.to_owned()),
            with_origin("base", human(spec.base)),
            with_origin("multiplier", self.multiplier.to_string()),
            with_origin("cap", human(spec.cap)),
            with_origin("jitter", self.jitter.clone()),
            with_origin("retriable", retriable(&spec.retriable)),
            with_origin("max-hint", human(spec.max_hint)),
            with_origin("max-deferrals", self.max_deferrals.to_string()),
            with_origin("max-lost", lost),
            with_origin("max-logical-age", limit(spec.max_logical_age)),
            with_origin("rule", rules(&spec.rules)),
        ]
    }
}

/// The record as a row of a list, with fewer columns in a table.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct PolicyListRow(pub(crate) PolicyView);

impl TableRow for PolicyListRow {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("policy"),
        TableColumn::text("place"),
        TableColumn::number("max attempts"),
        TableColumn::number("max age"),
        TableColumn::text("backoff"),
        TableColumn::text("jitter"),
        TableColumn::text("retriable"),
        TableColumn::number("rules"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.0.name.clone(),
            self.0.place.clone().unwrap_or_default(),
            self.0.attempts_in_words(),
            limit(self.0.declared.policy.spec().max_age),
            self.0.backoff_in_words(),
            self.0.jitter.clone(),
            retriable(&self.0.declared.policy.spec().retriable),
            self.0.rules.len().to_string(),
        ]
    }
}
