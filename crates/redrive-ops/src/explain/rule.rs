//! The rule behind each decision, in words.
//!
//! The ledger stores the decision: the wait, whether the attempt counted, and whether the unit was given up. The number
//! of the failure follows from the earlier rows. `decide` recomputes the wait from the current policy; when the two
//! differ, the policy has changed since, and the text says so.

use std::time::Duration;

use jiff::Timestamp;
use redrive_core::{
    Backoff, Cause, Class, Code, Decision, Failure, GiveUpReason, History, Jitter, JitterKey,
    JitterSeed, Policy, PolicySpec, Retriable, Unit, decide,
};
use redrive_store::{AttemptOutcome, AttemptRecord};

use crate::words::{human, rounded};

/// The policy of a unit; `None` when the configuration does not declare its queue or stage.
pub(super) struct UnitPolicy {
    policy: Option<Policy>,
    jitter: JitterKey,
}

/// Failures before an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct FailureCount {
    /// Counted failures since the last reset.
    pub(super) failures: u32,
    /// Consecutive deferrals.
    pub(super) deferrals: u32,
    /// Uncounted attempts of lost workers since the last reset.
    pub(super) lost: u32,
}

impl UnitPolicy {
    pub(super) fn new(policy: Option<Policy>, seed: JitterSeed, unit: &Unit) -> Self {
        Self { policy, jitter: JitterKey::new(seed, unit) }
    }

    /// The rule behind the decision about an attempt. `gave_up` is the reason from the journal.
    pub(super) fn describe(
        &self,
        attempt: &AttemptRecord,
        count: FailureCount,
        gave_up: Option<&str>,
    ) -> String {
        let policy = self.policy.as_ref().zip(attempt.failure());
        let Some((Some(number), policy)) = policy.map(|(policy, it)| policy.for_stored(it)) else {
            return self.decision(attempt, count, gave_up);
        };
        let of_rule = Self { policy: Some(policy.clone()), jitter: self.jitter };
        format!("by rule {number}: {}", of_rule.decision(attempt, count, gave_up))
    }

    fn decision(
        &self,
        attempt: &AttemptRecord,
        count: FailureCount,
        gave_up: Option<&str>,
    ) -> String {
        match (attempt.outcome, attempt.delay) {
            (AttemptOutcome::Success, _) => "succeeded".to_owned(),
            (AttemptOutcome::Skipped, _) => "skipped".to_owned(),
            (AttemptOutcome::Failed, _) => self.give_up(attempt, count, gave_up),
            (AttemptOutcome::Retrying, delay) => {
                self.wait(attempt, count, delay.unwrap_or_default())
            }
        }
    }

    /// Whether the attempt belongs to a series of waits for a server's hint, or as the probe of a gate. After `max_deferrals` such waits count, and
    /// the series goes on.
    pub(super) fn is_deferral(&self, attempt: &AttemptRecord, count: FailureCount) -> bool {
        let most = self.spec().map(|spec| spec.max_deferrals);
        let limited = attempt.class.as_deref() == Some("rate_limited");
        let uncounted = !attempt.counted && attempt.cause != Some(Cause::LostWorker);
        uncounted || limited && most.is_some_and(|most| count.deferrals >= most)
    }

    fn wait(&self, attempt: &AttemptRecord, count: FailureCount, delay: Duration) -> String {
        if attempt.cause == Some(Cause::LostWorker) && !attempt.counted {
            let lost = self.lost_number(count);
            return format!("{lost}, not counted: wait {}", human(delay));
        }
        if !attempt.counted {
            let deferral = match attempt.asked {
                None => format!("probe of a gate, not counted: wait {}", human(delay)),
                asked => format!("{}, not counted", asked_for(asked, delay)),
            };
            let most = self.spec().map(|spec| spec.max_deferrals);
            return match (count.deferrals.saturating_add(1), most) {
                (1, _) => deferral,
                (n, Some(most)) => format!("{deferral}, {n} in a row of {most}"),
                (n, None) => format!("{deferral}, {n} in a row"),
            };
        }
        let failure = self.failure_number(count);
        let Some(policy) = &self.policy else {
            return format!("{failure}: wait {}", human(delay));
        };
        if self.is_deferral(attempt, count) {
            let most = policy.spec().max_deferrals;
            let asked = asked_for(attempt.asked, delay);
            return format!("{failure}: {asked}, counted after {most} in a row");
        }
        if self.expected(policy, count) == Some(delay) {
            let formula = formula(policy, count.failures.saturating_add(1), delay);
            let retried = self.retried_although_final(attempt);
            return format!("{failure}: {retried}{formula}");
        }
        format!("{failure}: wait {}, by a policy that has changed since", human(delay))
    }

    fn give_up(
        &self,
        attempt: &AttemptRecord,
        count: FailureCount,
        reason: Option<&str>,
    ) -> String {
        let code = attempt.code.as_deref().unwrap_or("?");
        let known = |reason: GiveUpReason| reason.name();
        let because = match reason {
            Some(name) if name == known(GiveUpReason::AttemptsExhausted) => {
                let limits_lost = self.spec().is_some_and(|spec| spec.max_lost.is_some());
                match attempt.cause {
                    Some(Cause::LostWorker) if limits_lost => self.lost_number(count),
                    _ => {
                        let retried = self.retried_although_final(attempt);
                        format!("{retried}{}", self.failure_number(count))
                    }
                }
            }
            Some(name) if name == known(GiveUpReason::Final) => {
                format!("code {code} is final, or the handler reported a final failure")
            }
            Some(name) if name == known(GiveUpReason::NotRetriable) => {
                format!("the policy does not retry code {code}")
            }
            Some(name) if name == known(GiveUpReason::TooOld) => {
                let age = self.spec().and_then(|spec| spec.max_age);
                match age {
                    Some(age) => format!("the first attempt was {} ago or more", human(age)),
                    None => "the first attempt was too long ago".to_owned(),
                }
            }
            _ => self.failure_number(count),
        };
        format!("gave up: {}: {because}", reason.unwrap_or("reason unknown"))
    }

    fn spec(&self) -> Option<&PolicySpec> {
        self.policy.as_ref().map(Policy::spec)
    }

    fn retried_although_final(&self, attempt: &AttemptRecord) -> &'static str {
        let all = self.spec().is_some_and(|spec| spec.retriable == Retriable::All);
        if all && attempt.class.as_deref() == Some("final") {
            "final, but retriable = all: "
        } else {
            ""
        }
    }

    fn lost_number(&self, count: FailureCount) -> String {
        let n = count.lost.saturating_add(1);
        match self.spec().and_then(|spec| spec.max_lost) {
            Some(most) => format!("lost worker {n} of {most}"),
            None => format!("lost worker {n}"),
        }
    }

    fn failure_number(&self, count: FailureCount) -> String {
        let n = count.failures.saturating_add(1);
        match self.spec().map(|spec| spec.max_attempts) {
            Some(Some(most)) => format!("counted failure {n} of {most}"),
            Some(None) => format!("counted failure {n}, no limit"),
            None => format!("counted failure {n}"),
        }
    }

    /// The wait of the current policy.
    fn expected(&self, policy: &Policy, count: FailureCount) -> Option<Duration> {
        let policy = policy.without_limits().retrying_all();
        let history = History { counted: count.failures, ..History::default() };
        let failure = Failure::reported(Some(Class::Retryable), Code::Number(75), "");
        match decide(&policy, &history, &failure, Timestamp::UNIX_EPOCH, self.jitter) {
            // The ledger keeps microseconds.
            Decision::RetryAt { delay, .. } => {
                Some(Duration::from_micros(u64::try_from(delay.as_micros()).ok()?))
            }
            Decision::GiveUp { .. } => None,
        }
    }
}

/// The wait that the server asked for, and the one that was decided where the policy allows no more.
fn asked_for(asked: Option<Duration>, delay: Duration) -> String {
    match asked {
        Some(asked) if asked > delay => {
            format!("the server asked for {}, max-hint allows {}", human(asked), human(delay))
        }
        _ => format!("the server asked for {}", human(delay)),
    }
}

/// The wait of a partition: what the server asked for, or the backoff if that is longer.
pub(super) fn partition_wait(
    policy: &Policy,
    n: u32,
    asked: Option<Duration>,
    delay: Duration,
) -> String {
    match asked.filter(|asked| (*asked).min(policy.spec().max_hint) == delay) {
        Some(asked) => asked_for(Some(asked), delay),
        None => formula(policy, n, delay),
    }
}

/// `1m × 2^1 = 2m`, with the cap and the jitter where they apply.
pub(crate) fn formula(policy: &Policy, n: u32, delay: Duration) -> String {
    let spec = policy.spec();
    let base = human(spec.base);
    let backoff = policy.backoff_delay(n);
    let product = match spec.backoff {
        Backoff::Fixed => base,
        Backoff::Linear => format!("{base} × {n}"),
        Backoff::Exponential => format!("{base} × {}^{}", spec.multiplier, n.saturating_sub(1)),
    };
    let is_capped = backoff == spec.cap && spec.backoff != Backoff::Fixed && n > 1;
    let before_jitter = match spec.backoff {
        Backoff::Fixed => product,
        Backoff::Linear | Backoff::Exponential if is_capped => {
            format!("{product}, at most {}", human(spec.cap))
        }
        Backoff::Linear | Backoff::Exponential => format!("{product} = {}", human(backoff)),
    };
    match spec.jitter {
        Jitter::None => before_jitter,
        Jitter::Absolute(_) | Jitter::Fraction(_) | Jitter::Full => {
            format!("{before_jitter}, with jitter {}", rounded(delay))
        }
    }
}

#[cfg(test)]
mod tests {
    use redrive_core::{AttemptNumber, Preset, RunId};
    use redrive_store::{UnitKind, UnitRow};

    use super::*;

    /// The rule behind the last attempt of a unit whose attempts were exhausted.
    fn last_rule(spec: PolicySpec, failure: &Failure, count: FailureCount) -> String {
        let (row, at) = (UnitRow::new(UnitKind::Run, 1), Timestamp::UNIX_EPOCH);
        let attempt = AttemptRecord::success(row, AttemptNumber(9), at, at, "w");
        let reason = GiveUpReason::AttemptsExhausted;
        let attempt = attempt.with_failure(failure).with_decision(&Decision::GiveUp { reason });
        let policy = Policy::new(spec).unwrap();
        let unit_policy = UnitPolicy::new(Some(policy), JitterSeed(0), &Unit::Run(RunId(1)));
        unit_policy.describe(&attempt, count, Some(reason.name()))
    }

    // POL-11
    #[test]
    fn a_unit_that_lost_too_many_workers_says_how_many() {
        let spec = PolicySpec {
            max_attempts: Some(2),
            max_lost: Some(3),
            ..Preset::Run.policy().spec().clone()
        };
        let lost = Failure::named("lost_worker", Cause::LostWorker, "silent");
        let count = FailureCount { lost: 2, ..FailureCount::default() };
        let rule = last_rule(spec.clone(), &lost, count);
        assert_eq!(rule, "gave up: attempts_exhausted: lost worker 3 of 3");
        let counted = PolicySpec { max_lost: None, ..spec };
        let rule = last_rule(counted, &lost, FailureCount { failures: 1, ..count });
        assert_eq!(rule, "gave up: attempts_exhausted: counted failure 2 of 2");
    }

    // CLS-5
    #[test]
    fn the_last_attempt_says_that_the_policy_retries_final_failures() {
        let spec = PolicySpec {
            max_attempts: Some(3),
            retriable: Retriable::All,
            ..Preset::Run.policy().spec().clone()
        };
        let count = FailureCount { failures: 2, ..FailureCount::default() };
        let rule = last_rule(spec, &Failure::exit(65, "bad"), count);
        let expected =
            "gave up: attempts_exhausted: final, but retriable = all: counted failure 3 of 3";
        assert_eq!(rule, expected);
    }
}
