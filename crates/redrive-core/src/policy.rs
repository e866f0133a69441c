//! Retry policies as plain data (POL-1, POL-5).
//!
//! [`PolicySpec`] has the settings as users write them; [`Policy`] is a checked spec. Every
//! function that decides takes a `Policy`, so no decision meets a NaN, a zero base or a cap below
//! its base.

use std::{fmt, time::Duration};

use crate::{HumanDuration, Jitter, MAX_DURATION, PolicyRule, Retriable};

/// The largest multiplier. A larger value is more likely a typing error than a plan.
pub const MAX_MULTIPLIER: f64 = 1_000.0;

/// How the problem of a cap below its base begins.
pub const AT_LEAST_BASE: &str = "at least the base";

/// How the wait grows with the number of counted failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backoff {
    /// Always `base`.
    Fixed,
    /// `base` × n, up to `cap`.
    Linear,
    /// `base` × `multiplier`^(n−1), up to `cap`.
    Exponential,
}

impl Backoff {
    pub const ALL: [Self; 3] = [Self::Fixed, Self::Linear, Self::Exponential];

    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Linear => "linear",
            Self::Exponential => "exponential",
        }
    }
}

/// The unchecked settings of a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicySpec {
    /// Attempts including the first; `None` never gives up by count.
    pub max_attempts: Option<u32>,
    /// The time after the first attempt at which retrying ends; `None` never gives up by age.
    pub max_age: Option<Duration>,
    pub backoff: Backoff,
    /// The wait after the first failure.
    pub base: Duration,
    /// The growth factor of an exponential backoff.
    pub multiplier: f64,
    /// The longest wait before jitter. A fixed backoff ignores the cap.
    pub cap: Duration,
    pub jitter: Jitter,
    pub retriable: Retriable,
    /// The longest server hint that is obeyed.
    pub max_hint: Duration,
    /// The number of consecutive deferrals that are not counted as attempts.
    pub max_deferrals: u32,
    /// Lost workers until a unit is given up, apart from its attempts; `None` counts a lost worker as an attempt.
    pub max_lost: Option<u32>,
    /// The time after its logical date at which a partition is no longer retried; partitions only.
    pub max_logical_age: Option<Duration>,
    /// Other settings for some failures; the first rule that matches counts.
    pub rules: Vec<PolicyRule>,
}

impl Default for PolicySpec {
    /// Exponential from 1 s by 2 up to 60 s, ± 25 %, 3 attempts, by class, hints up to 24 h.
    fn default() -> Self {
        Self {
            max_attempts: Some(3),
            max_age: None,
            backoff: Backoff::Exponential,
            base: Duration::from_secs(1),
            multiplier: 2.0,
            cap: Duration::from_secs(60),
            jitter: Jitter::Fraction(0.25),
            retriable: Retriable::ByClass,
            max_hint: Duration::from_secs(24 * 3600),
            max_deferrals: 100,
            max_lost: None,
            max_logical_age: None,
            rules: Vec::new(),
        }
    }
}

/// Settings that take the place of those of another policy.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PolicyOverrides {
    /// `Some(None)` removes the limit.
    pub max_attempts: Option<Option<u32>>,
    pub max_age: Option<Option<Duration>>,
    pub backoff: Option<Backoff>,
    pub base: Option<Duration>,
    pub multiplier: Option<f64>,
    pub cap: Option<Duration>,
    pub jitter: Option<Jitter>,
    pub retriable: Option<Retriable>,
    pub max_hint: Option<Duration>,
    pub max_deferrals: Option<u32>,
    pub max_lost: Option<Option<u32>>,
    pub max_logical_age: Option<Option<Duration>>,
    pub rules: Option<Vec<PolicyRule>>,
}

impl PolicyOverrides {
    /// The settings with these in place of those of `start`. Another backoff does not inherit the jitter, which was
    /// chosen for the first one.
    pub fn over(&self, start: PolicySpec) -> PolicySpec {
        let backoff = self.backoff.unwrap_or(start.backoff);
        let jitter = if backoff == start.backoff { start.jitter } else { Jitter::None };
        PolicySpec {
            max_attempts: self.max_attempts.unwrap_or(start.max_attempts),
            max_age: self.max_age.unwrap_or(start.max_age),
            backoff,
            base: self.base.unwrap_or(start.base),
            multiplier: self.multiplier.unwrap_or(start.multiplier),
            cap: self.cap.unwrap_or(start.cap),
            jitter: self.jitter.unwrap_or(jitter),
            retriable: self.retriable.clone().unwrap_or(start.retriable),
            max_hint: self.max_hint.unwrap_or(start.max_hint),
            max_deferrals: self.max_deferrals.unwrap_or(start.max_deferrals),
            max_lost: self.max_lost.unwrap_or(start.max_lost),
            max_logical_age: self.max_logical_age.unwrap_or(start.max_logical_age),
            rules: self.rules.clone().unwrap_or(start.rules),
        }
    }

    /// The names of all settings, as the configuration writes them.
    pub const SETTINGS: [&str; 13] = [
        "max-attempts",
        "max-age",
        "backoff",
        "base",
        "multiplier",
        "cap",
        "jitter",
        "retriable",
        "max-hint",
        "max-deferrals",
        "max-lost",
        "max-logical-age",
        "rule",
    ];

    /// The names of the settings that these say. A backoff also says the jitter, which it does not inherit.
    pub fn settings(&self) -> Vec<&'static str> {
        let said = [
            self.max_attempts.is_some(),
            self.max_age.is_some(),
            self.backoff.is_some(),
            self.base.is_some(),
            self.multiplier.is_some(),
            self.cap.is_some(),
            self.jitter.is_some() || self.backoff.is_some_and(|it| it != Backoff::Exponential),
            self.retriable.is_some(),
            self.max_hint.is_some(),
            self.max_deferrals.is_some(),
            self.max_lost.is_some(),
            self.max_logical_age.is_some(),
            self.rules.is_some(),
        ];
        let settings = Self::SETTINGS.into_iter().zip(said);
        settings.filter_map(|(name, is_said)| is_said.then_some(name)).collect()
    }
}

/// A checked policy.
///
/// ```
/// use std::time::Duration;
/// use redrive_core::{Policy, PolicySpec};
///
/// let policy = Policy::new(PolicySpec { max_attempts: Some(5), ..PolicySpec::default() })?;
/// assert_eq!(policy.spec().max_attempts, Some(5));
///
/// let wrong = PolicySpec { multiplier: f64::NAN, ..PolicySpec::default() };
/// let problem = Policy::new(wrong).unwrap_err();
/// assert_eq!(problem.problems()[0].field, "multiplier");
/// # Ok::<(), redrive_core::InvalidPolicy>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    spec: PolicySpec,
    /// The policy of each rule, which has no rules itself.
    of_rules: Vec<Policy>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} = {value} is not allowed: {allowed}")]
pub struct FieldProblem {
    /// The name of the setting in the configuration.
    pub field: &'static str,
    pub value: String,
    pub allowed: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidPolicy(Vec<FieldProblem>);

impl InvalidPolicy {
    /// Every problem, in the order of the fields. Never empty.
    pub fn problems(&self) -> &[FieldProblem] {
        &self.0
    }
}

impl fmt::Display for InvalidPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for InvalidPolicy {}

impl Policy {
    /// Checks every setting and reports all problems at once.
    pub fn new(spec: PolicySpec) -> Result<Self, InvalidPolicy> {
        let mut problems = Problems(Vec::new());
        if spec.max_attempts == Some(0) {
            problems.add("max-attempts", 0, "it counts the first execution, so at least 1");
        }
        if let Some(age) = spec.max_age {
            problems.check_duration("max-age", age);
        }
        problems.check_duration("base", spec.base);
        if !(1.0..=MAX_MULTIPLIER).contains(&spec.multiplier) {
            problems.add("multiplier", spec.multiplier, format!("from 1 to {MAX_MULTIPLIER}"));
        }
        problems.check_duration("cap", spec.cap);
        if spec.backoff != Backoff::Fixed && !spec.cap.is_zero() && spec.cap < spec.base {
            let base = HumanDuration::from(spec.base);
            problems.add("cap", HumanDuration::from(spec.cap), format!("{AT_LEAST_BASE}, {base}"));
        }
        match spec.jitter {
            Jitter::Absolute(spread) => problems.check_duration("jitter", spread),
            Jitter::Fraction(fraction) if !(fraction > 0.0 && fraction <= 1.0) => {
                let value = format!("{}%", fraction * 100.0);
                problems.add("jitter", value, "a share above 0% and up to 100%");
            }
            Jitter::None | Jitter::Fraction(_) | Jitter::Full => {}
        }
        problems.check_duration("max-hint", spec.max_hint);
        if spec.max_deferrals == 0 {
            problems.add("max-deferrals", 0, "at least 1");
        }
        if spec.max_lost == Some(0) {
            problems.add("max-lost", 0, "at least 1");
        }
        if let Some(age) = spec.max_logical_age {
            problems.check_duration("max-logical-age", age);
        }
        let mut of_rules = Vec::new();
        for (rule, number) in spec.rules.iter().zip(1..) {
            if rule.when.is_empty() {
                let allowed = "a rule needs a code, a class, an origin or a fingerprint";
                problems.add("rule", number, allowed);
            }
            let plain = PolicySpec { rules: Vec::new(), ..spec.clone() };
            match Self::new(rule.overrides.over(plain)) {
                Ok(policy) => of_rules.push(policy),
                // What is wrong without the rule is reported once.
                Err(_) if !problems.0.is_empty() => {}
                Err(invalid) => problems.add("rule", number, invalid.to_string()),
            }
        }
        if problems.0.is_empty() {
            Ok(Self { spec, of_rules })
        } else {
            Err(InvalidPolicy(problems.0))
        }
    }

    pub fn spec(&self) -> &PolicySpec {
        &self.spec
    }

    pub(crate) fn of_rules(&self) -> &[Self] {
        &self.of_rules
    }

    /// The policy without limits on attempts and age, and without rules, for a schedule beyond the limits.
    pub fn without_limits(&self) -> Self {
        Self::without_rules(PolicySpec {
            max_attempts: None,
            max_age: None,
            max_lost: None,
            max_logical_age: None,
            ..self.spec.clone()
        })
    }

    /// The policy with every class and code retriable, and without rules.
    pub fn retrying_all(&self) -> Self {
        Self::without_rules(PolicySpec { retriable: Retriable::All, ..self.spec.clone() })
    }

    fn without_rules(spec: PolicySpec) -> Self {
        Self { spec: PolicySpec { rules: Vec::new(), ..spec }, of_rules: Vec::new() }
    }
}

struct Problems(Vec<FieldProblem>);

impl Problems {
    fn add(&mut self, field: &'static str, value: impl fmt::Display, allowed: impl Into<String>) {
        self.0.push(FieldProblem { field, value: value.to_string(), allowed: allowed.into() });
    }

    fn check_duration(&mut self, field: &'static str, value: Duration) {
        if value.is_zero() || value > MAX_DURATION {
            self.add(field, HumanDuration::from(value), "longer than zero, at most 36500d");
        }
    }
}
