//! Rules: settings of a policy for some of its failures (POL-10).
//!
//! The first rule that matches a failure gives the settings that it overrides; all other settings, and the count of
//! attempts, are those of the policy.

use std::fmt;

use crate::{Cause, Class, Code, Failure, Fingerprint, Policy, PolicyOverrides};

/// Settings for the failures that match.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyRule {
    pub when: RuleMatch,
    /// Only the settings of [`PolicyRule::SETTINGS`].
    pub overrides: PolicyOverrides,
}

impl PolicyRule {
    /// What a rule may override. Limits on age and lost workers are about the unit, not about one failure.
    pub const SETTINGS: [&str; 6] =
        ["max-attempts", "base", "multiplier", "cap", "jitter", "retriable"];
}

/// Which failures a rule is about. A failure matches if it is in every list that is not empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuleMatch {
    pub codes: Vec<Code>,
    /// By name; a hint does not matter.
    pub classes: Vec<Class>,
    /// Who or what ended the attempt: the ledger's column `cause`.
    pub origins: Vec<Cause>,
    pub fingerprints: Vec<Fingerprint>,
}

/// What rules look at, of a failure that was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredFailure<'a> {
    pub class: &'a str,
    pub code: &'a str,
    /// Not stored for every kind of unit.
    pub origin: Option<Cause>,
    pub fingerprint: &'a str,
}

impl RuleMatch {
    pub fn is_empty(&self) -> bool {
        let Self { codes, classes, origins, fingerprints } = self;
        codes.is_empty() && classes.is_empty() && origins.is_empty() && fingerprints.is_empty()
    }

    fn matches(&self, failure: &Failure) -> bool {
        is_in(&self.codes, |code| code == failure.code())
            && is_in(&self.classes, |class| class.name() == failure.class().name())
            && is_in(&self.origins, |origin| *origin == failure.cause())
            && (self.fingerprints.is_empty() || self.fingerprints.contains(&failure.fingerprint()))
    }

    fn matches_stored(&self, failure: StoredFailure<'_>) -> bool {
        is_in(&self.codes, |code| code.to_string() == failure.code)
            && is_in(&self.classes, |class| class.name() == failure.class)
            && is_in(&self.origins, |origin| Some(*origin) == failure.origin)
            && is_in(&self.fingerprints, |print| print.to_string() == failure.fingerprint)
    }
}

fn is_in<T>(list: &[T], is_meant: impl Fn(&T) -> bool) -> bool {
    list.is_empty() || list.iter().any(is_meant)
}

/// `code 429 or 529, class retryable`.
impl fmt::Display for RuleMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lists = [
            ("code", texts(&self.codes, Code::to_string)),
            ("class", texts(&self.classes, |class| class.name().to_owned())),
            ("origin", texts(&self.origins, |origin| origin.name().to_owned())),
            ("cause", texts(&self.fingerprints, Fingerprint::to_string)),
        ];
        let given = lists.iter().filter(|(_, values)| !values.is_empty());
        for (place, (name, values)) in given.enumerate() {
            let comma = if place > 0 { ", " } else { "" };
            write!(f, "{comma}{name} {}", values.join(" or "))?;
        }
        Ok(())
    }
}

fn texts<T>(list: &[T], text: impl Fn(&T) -> String) -> Vec<String> {
    list.iter().map(text).collect()
}

impl Policy {
    /// The policy for a failure: this one, or the one of the first rule that matches.
    ///
    /// ```
    /// use std::time::Duration;
    /// use redrive_core::{
    ///     Code, Failure, Policy, PolicyOverrides, PolicyRule, PolicySpec, RuleMatch,
    /// };
    ///
    /// let overloaded = PolicyRule {
    ///     when: RuleMatch { codes: vec![Code::Number(529)], ..RuleMatch::default() },
    ///     overrides: PolicyOverrides {
    ///         base: Some(Duration::from_secs(30)),
    ///         ..PolicyOverrides::default()
    ///     },
    /// };
    /// let policy = Policy::new(PolicySpec { rules: vec![overloaded], ..PolicySpec::default() })?;
    /// let wait = |status| policy.for_failure(&Failure::http(status, None, "")).backoff_delay(1);
    /// assert_eq!(wait(529), Duration::from_secs(30));
    /// assert_eq!(wait(503), Duration::from_secs(1));
    /// # Ok::<(), redrive_core::InvalidPolicy>(())
    /// ```
    pub fn for_failure(&self, failure: &Failure) -> &Self {
        self.by_first_rule(|rule| rule.matches(failure)).1
    }

    /// The limit of attempts, if it is the same whatever fails.
    pub fn max_attempts(&self) -> Option<u32> {
        let max = self.spec().max_attempts;
        max.filter(|_| self.of_rules().iter().all(|rule| rule.spec().max_attempts == max))
    }

    /// The policy for a failure that was stored, and the number of the rule that matches, from 1.
    pub fn for_stored(&self, failure: StoredFailure<'_>) -> (Option<usize>, &Self) {
        self.by_first_rule(|rule| rule.matches_stored(failure))
    }

    fn by_first_rule(&self, matches: impl Fn(&RuleMatch) -> bool) -> (Option<usize>, &Self) {
        let mut rules = self.spec().rules.iter().zip(self.of_rules());
        let found = rules.position(|(rule, _)| matches(&rule.when));
        let policy = found.and_then(|place| self.of_rules().get(place));
        (found.map(|place| place + 1), policy.unwrap_or(self))
    }
}
