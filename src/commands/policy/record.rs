//! A policy as it is printed.

use redrive::{
    Backoff, Code, Policy, Retriable,
    config::{JitterText, PolicyChoice},
};
use serde::Serialize;
use serde_json::Value;

use redrive_desk::words::{human, seconds};

use crate::output::{Column, Row};

/// A policy with its name and every setting.
#[derive(Debug, Serialize)]
pub(crate) struct PolicyRecord {
    name: String,
    max_attempts: Option<u32>,
    max_age_s: Option<Value>,
    backoff: &'static str,
    base_s: Value,
    multiplier: f64,
    cap_s: Value,
    jitter: String,
    retriable: Value,
    max_hint_s: Value,
    max_deferrals: u32,
    #[serde(skip)]
    policy: Policy,
}

impl PolicyRecord {
    /// The record of a policy.
    pub(crate) fn new(name: &str, policy: &Policy) -> Self {
        let spec = policy.spec();
        Self {
            name: name.to_owned(),
            max_attempts: spec.max_attempts,
            max_age_s: spec.max_age.map(seconds),
            backoff: spec.backoff.name(),
            base_s: seconds(spec.base),
            multiplier: spec.multiplier,
            cap_s: seconds(spec.cap),
            jitter: JitterText(spec.jitter).to_string(),
            retriable: retriable(&spec.retriable),
            max_hint_s: seconds(spec.max_hint),
            max_deferrals: spec.max_deferrals,
            policy: policy.clone(),
        }
    }

    /// The record of a policy as something uses it.
    pub(crate) fn of_choice(choice: &PolicyChoice) -> Self {
        Self::new(choice.name.as_deref().unwrap_or("in place"), &choice.policy)
    }

    /// The most attempts, in words.
    pub(crate) fn attempts(&self) -> String {
        self.max_attempts.map_or("no limit".to_owned(), |max| max.to_string())
    }

    /// The backoff in words, such as `exponential 1m × 2^(n−1), cap 1h`.
    pub(crate) fn backoff(&self) -> String {
        let spec = self.policy.spec();
        let (base, cap) = (human(spec.base), human(spec.cap));
        match spec.backoff {
            Backoff::Fixed => format!("fixed {base}"),
            Backoff::Linear => format!("linear {base} × n, cap {cap}"),
            Backoff::Exponential => {
                format!("exponential {base} × {}^(n−1), cap {cap}", spec.multiplier)
            }
        }
    }

    fn max_age(&self) -> String {
        self.policy.spec().max_age.map_or("no limit".to_owned(), human)
    }

    fn retriable(&self) -> String {
        match &self.policy.spec().retriable {
            Retriable::ByClass => "by class".to_owned(),
            Retriable::All => "all".to_owned(),
            Retriable::None => "none".to_owned(),
            Retriable::Codes(codes) => {
                let codes: Vec<String> = codes.iter().map(Code::to_string).collect();
                codes.join(", ")
            }
        }
    }
}

impl Row for PolicyRecord {
    const COLUMNS: &'static [Column] = &[
        Column::text("name"),
        Column::text("max attempts"),
        Column::text("max age"),
        Column::text("backoff"),
        Column::text("base"),
        Column::text("multiplier"),
        Column::text("cap"),
        Column::text("jitter"),
        Column::text("retriable"),
        Column::text("max hint"),
        Column::text("max deferrals"),
    ];

    fn cells(&self) -> Vec<String> {
        let spec = self.policy.spec();
        vec![
            self.name.clone(),
            self.attempts(),
            self.max_age(),
            self.backoff.to_owned(),
            human(spec.base),
            self.multiplier.to_string(),
            human(spec.cap),
            self.jitter.clone(),
            self.retriable(),
            human(spec.max_hint),
            self.max_deferrals.to_string(),
        ]
    }
}

/// The same record in a list, where a table has room for less.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct PolicySummary(pub(crate) PolicyRecord);

impl Row for PolicySummary {
    const COLUMNS: &'static [Column] = &[
        Column::text("name"),
        Column::number("max attempts"),
        Column::number("max age"),
        Column::text("backoff"),
        Column::text("jitter"),
        Column::text("retriable"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.0.name.clone(),
            self.0.attempts(),
            self.0.max_age(),
            self.0.backoff(),
            self.0.jitter.clone(),
            self.0.retriable(),
        ]
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
